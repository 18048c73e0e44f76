"""Servers whose programs are fetched."""

import shutil
from pathlib import Path

from devtools.messages import say
from devtools.servers import folder
from devtools.servers.apt import Apt
from devtools.servers.loader import use_own_libraries
from devtools.servers.server import Server
from devtools.servers.versions import upstream, wanted


class Fetched(Server):
    """A server whose programs come into a folder of ours, at the latest when it is started.

    The folder is named after the version that was tested, and stays what it is: a suite moves.
    """

    bin_folder = "usr/bin"

    def __init__(self) -> None:
        self.wanted = wanted(self.name)
        self.packages = " ".join(self.wanted.packages)

    @property
    def place(self) -> Path:
        return folder.cache() / f"{self.name}-{upstream(self.wanted.tested)}"

    def installed_in(self) -> Path | None:
        return self.place / self.bin_folder if self.place.exists() else None

    def provide(self) -> None:
        """Fetch the programs, unless they are there; say so if they are not the tested ones."""
        if self.installed_in() is None:
            say(f"Fetching {self.title} into {self.place}.")
            folder.fill(self.place, self.fetch)
        if (version := self.version()) not in ("", self.wanted.tested):
            say(f"{self.title} is {version}: {self.wanted.tested}, which was tested, is gone here.")

    def fetch(self, new: Path) -> None:
        """Fill the folder with the packages and all that they need."""
        state = new / "apt"
        state.mkdir()
        apt = Apt(state)
        version, names = apt.find(self.wanted)
        apt.unpack(names, version, new)
        shutil.rmtree(state)
        use_own_libraries(new)
        (new / "version").write_text(version, encoding="utf-8")

    def version(self) -> str:
        """The version that was fetched, if another one than the tested could have been."""
        file = self.place / "version"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def start(self) -> None:
        self.provide()
        super().start()
