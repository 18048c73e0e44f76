"""Programs that need newer libraries than the machine has: their own are unpacked beside them."""

from pathlib import Path

ELF = b"\x7fELF"

# By the path that it is called by, so that the folder may be moved.
SCRIPT = """\
#!/bin/sh
root=${{0%/usr/*}}
libraries="$root/{libraries}:$root/usr/{libraries}"
exec "$root/{loader}" --library-path "$libraries" "$root/{program}" "$@"
"""


def use_own_libraries(root: Path) -> None:
    """Put a script in the place of each program, which runs it by the loader of its libraries.

    All are in usr/bin afterwards, so that one folder has what a server needs.
    """
    programs, others = root / "usr" / "bin", root / "usr" / "sbin"
    for program in others.iterdir():
        program.rename(programs / program.name)
    others.rmdir()
    others.symlink_to("bin")
    for program in [each for each in programs.iterdir() if _is_binary(each)]:
        binary = program.rename(program.with_name(f"{program.name}.elf"))
        program.write_text(_script(root, binary), encoding="utf-8")
        program.chmod(0o755)


def _script(root: Path, binary: Path) -> str:
    # Debian 12 has some libraries below /lib, and others below /usr/lib.
    (loader,) = [*root.glob("lib/*/ld*.so.[0-9]"), *root.glob("usr/lib/*/ld*.so.[0-9]")]
    return SCRIPT.format(
        loader=loader.relative_to(root),
        libraries=f"lib/{loader.parent.name}",
        program=binary.relative_to(root),
    )


def _is_binary(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(len(ELF)) == ELF
