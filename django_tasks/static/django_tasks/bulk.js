"use strict";

// Sends the form of a change that goes on, by itself. Without scripts its button does that.
document.addEventListener("DOMContentLoaded", () => {
    const form = document.querySelector("form[data-task-goes-on]");
    if (form !== null) {
        window.setTimeout(() => form.requestSubmit(), 300);
    }
});
