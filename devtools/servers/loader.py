"""Programs that need newer libraries than the machine has: their own are unpacked beside them."""

from pathlib import Path

ELF = b"\x7fELF"
BINARY = ".elf"

# The loader's own libraries come first; Debian 12 has those of others in another folder.
WRAPPER = """\
#!/bin/sh
root=${{0%/usr/*}}
exec "$root/{loader}" --library-path "$root/{first}:$root/{second}" "$0{binary}" "$@"
"""


def use_own_libraries(root: Path) -> None:
    """Put a script in each program's place that runs it by the loader of its own libraries.

    All programs are in usr/bin then, where a script of MariaDB looks for the others.
    """
    programs, others = root / "usr" / "bin", root / "usr" / "sbin"
    for program in others.iterdir():
        program.rename(programs / program.name)
    others.rmdir()
    others.symlink_to("bin")
    wrapper = _wrapper(root)
    for program in [each for each in programs.iterdir() if _is_binary(each)]:
        program.rename(program.with_name(program.name + BINARY))
        program.write_text(wrapper, encoding="utf-8")
        program.chmod(0o755)


def _wrapper(root: Path) -> str:
    (loader,) = (
        path for lib in ("lib", "usr/lib") for path in root.glob(f"{lib}/*/ld-linux*.so.*")
    )
    libraries = loader.parent.relative_to(root)
    return WRAPPER.format(
        loader=loader.relative_to(root),
        first=libraries,
        second=f"usr/lib/{libraries.name}",
        binary=BINARY,
    )


def _is_binary(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(ELF)) == ELF
