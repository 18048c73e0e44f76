"""Small parts of a kubelet: a container's command and variables, and the answers to its probes."""

import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.shop import DEPLOY, Shop
from tests.environments.web import free_port
from tests.leader import Leader
from tests.waiting import eventually

FOLDER = DEPLOY / "kubernetes"

Manifest = dict[str, Any]


def manifest(name: str) -> Manifest:
    read: Manifest = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return read


def pod(manifest: Manifest) -> Manifest:
    spec: Manifest = manifest["spec"]["template"]["spec"]
    return spec


def container(manifest: Manifest) -> Manifest:
    (only,) = pod(manifest)["containers"]
    assert isinstance(only, dict)
    return only


def port_of(spec: Manifest, probe: str) -> int:
    """The number behind the name of the port that a probe asks."""
    name = spec[probe]["httpGet"]["port"]
    (number,) = [each["containerPort"] for each in spec["ports"] if each["name"] == name]
    return int(number)


class Container(Leader):
    """The command of a container with its variables, on a port of its own."""

    def __init__(self, manifest: Manifest, shop: Shop, variables: Mapping[str, str]) -> None:
        self.spec = container(manifest)
        self.log_file: Path = shop.place / "log" / "container"
        self._port = free_port()
        declared = str(port_of(self.spec, "livenessProbe"))
        python, *words = self.spec["args"]
        assert python == "python"
        words = [word.replace(declared, str(self._port)) for word in words]
        (source,) = self.spec["envFrom"]
        assert source == {"secretRef": {"name": "shop"}}
        with open(self.log_file, "wb") as output:
            super().__init__(
                [sys.executable, *words],
                cwd=shop.folder,
                env=shop.environment(**variables, **shop.secrets),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def passes(self, probe: str) -> bool:
        """Ask as a kubelet does: 200 to 399 within the time of the probe is a yes."""
        spec = self.spec[probe]
        line = HTTPConnection("127.0.0.1", self._port, timeout=spec.get("timeoutSeconds", 1))
        try:
            line.request("GET", spec["httpGet"]["path"], headers={"User-Agent": "kube-probe/1.32"})
            return 200 <= line.getresponse().status < 400
        except (OSError, HTTPException):
            return False
        finally:
            line.close()

    def starts(self) -> None:
        """Ask the startup probe until it says yes, as often as it may say no."""
        spec = self.spec["startupProbe"]
        eventually(
            lambda: self.passes("startupProbe") or not self.is_running(),
            "the startup probe has said yes",
            deadline=spec["periodSeconds"] * spec["failureThreshold"],
            log=self.log,
        )
        assert self.is_running(), self.log()
