/* Fetches the page again and puts its new main part in place of the old one, while it is looked at.
   What is open stays open, and what has the focus keeps it. */
"use strict";

(function () {
    const SHORTEST = 5, LONGEST = 300;
    let failures = 0;
    let timer = null;

    function live() {
        return document.getElementById("task-live");
    }

    function seconds() {
        const wanted = Number(live().dataset.refresh) || 15;
        // After failures more and more seldom: a server that is down is not asked by every page.
        return Math.min(LONGEST, Math.max(SHORTEST, wanted) * Math.pow(2, failures));
    }

    function later() {
        window.clearTimeout(timer);
        timer = window.setTimeout(refresh, 1000 * seconds());
    }

    function say(text) {
        const state = document.getElementById("task-state");
        if (state && state.textContent !== text) {
            state.textContent = text;
        }
    }

    function isInUse() {
        const chosen = window.getSelection();
        return Boolean(chosen && !chosen.isCollapsed && live().contains(chosen.anchorNode));
    }

    function replace(text) {
        const page = new DOMParser().parseFromString(text, "text/html");
        const fresh = page.getElementById("task-live");
        if (!fresh) {
            throw new Error("not the dashboard"); // the login page, for one
        }
        const old = live();
        const focused = old.contains(document.activeElement) ? document.activeElement : null;
        const address = focused && focused.getAttribute("href");
        for (const details of old.querySelectorAll("details[open][id]")) {
            const other = fresh.querySelector("#" + CSS.escape(details.id));
            if (other) {
                other.open = true;
            }
        }
        old.replaceWith(document.adoptNode(fresh));
        if (address) {
            for (const link of live().querySelectorAll("a[href]")) {
                if (link.getAttribute("href") === address) {
                    link.focus({ preventScroll: true });
                    break;
                }
            }
        }
    }

    async function refresh() {
        if (document.hidden || isInUse()) {
            later();
            return;
        }
        try {
            const response = await fetch(window.location.href, {
                credentials: "same-origin",
                cache: "no-store",
            });
            if (!response.ok) {
                throw new Error(String(response.status));
            }
            replace(await response.text());
            failures = 0;
        } catch (error) {
            failures = Math.min(failures + 1, 5);
            const known = document.getElementById("task-asof");
            say(live().dataset.failed + " " + (known ? known.textContent : ""));
        }
        later();
    }

    document.addEventListener("visibilitychange", function () {
        if (!document.hidden) {
            window.clearTimeout(timer);
            timer = window.setTimeout(refresh, 200);
        }
    });
    document.addEventListener("DOMContentLoaded", later);
})();
