"""Build the sdist and the wheel, compare what is in them with what belongs there, and try the installed wheel.

``python tests/distribution.py`` takes the files git knows or would add, works in a temporary folder, and ends with 1
at the first thing that is not as it must be. With ``EMQCTL_TEST_DEPTH=full`` real shells try the installed wheel too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = (
    *("emqctl/", "tests/", "completions/", "man/"),
    *("README.md", ".github/session.svg", "LICENSE", "CHANGELOG.md"),
)
OF_THE_SDIST = {"PKG-INFO", "pyproject.toml", ".gitignore"}  # hatchling puts them in
OF_THE_WHEEL = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}

SETTINGS = (ROOT / "pyproject.toml").read_text("utf-8")
VERSION = re.findall(r'^version = "(.+)"', SETTINGS, re.MULTILINE)[0]
SHARED = dict(re.findall(r'^"(.+)" = "(share/.+)"', SETTINGS, re.MULTILINE))

#: What is typed after an installation, and what must be printed.
TRIED = (
    ("emqctl --version", rf"emqctl {re.escape(VERSION)}\n"),
    ("emqctl key orders pending", r"emq:\{orders\}:pending\n"),
    ("emqctl slot orders", r"105\n"),
    ("emqctl schema depth", r'(?s)\{.*"title": "emqctl/depth/1".*\}\n'),
    ("emqctl completion zsh", r"(?s)#compdef emqctl\n.*"),
    ("emqctl demo -- depth orders", r"300\n"),
    ("emqctl demo -- requeue orders --all --yes -o ids", r"(JOB\w{11}\n){60}"),
    ("python -m emqctl --version", r"emqctl .+\n"),
    ("python -c 'from emqctl.keyspace import QueueKeys; print(QueueKeys(\"a\").dead.decode())'", r"emq:\{a\}:dead\n"),
)


def main() -> None:
    """Do it all."""
    with tempfile.TemporaryDirectory(prefix="emqctl-distribution-") as folder:
        work = Path(folder)
        sources = sources_in(work / "sources")
        built = build(work)
        [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
        check_sdist(sdist, sources)
        check_wheel(wheel, sources)
        prefix = environment(work / "installed", f"emqctl[demo] @ {wheel.as_uri()}")
        try_out(prefix, work)
        if os.environ.get("EMQCTL_TEST_DEPTH") == "full":
            try_shells(prefix)
    say(f"{sdist.name} and {wheel.name} are as they must be")


def sources_in(folder: Path) -> set[str]:
    """Copy the files that git knows or would add; return their names."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return names


def build(work: Path) -> Path:
    """Build the sdist, and the wheel from that; return the folder with both."""
    builder = environment(work / "builder", "build")
    command = [str(builder / "bin" / "python"), "-m", "build", "--outdir", str(work / "dist"), str(work / "sources")]
    run(command, cwd=work)
    return work / "dist"


def check_sdist(sdist: Path, sources: set[str]) -> None:
    """Compare the sdist with the files that are to be shipped."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    same(sdist.name, names - OF_THE_SDIST, {name for name in sources if name.startswith(SHIPPED)})


def check_wheel(wheel: Path, sources: set[str]) -> None:
    """Compare the wheel with the package, and with what is to be shared."""
    stem = f"emqctl-{VERSION}"
    wanted = {name for name in sources if name.startswith("emqctl/")}
    wanted |= {f"{stem}.data/data/{target}" for target in SHARED.values()}
    wanted |= {f"{stem}.dist-info/{name}" for name in OF_THE_WHEEL}
    with zipfile.ZipFile(wheel) as archive:
        same(wheel.name, set(archive.namelist()), wanted)
        for source, target in SHARED.items():
            if archive.read(f"{stem}.data/data/{target}") != (ROOT / source).read_bytes():
                fail(f"{wheel.name}: {target} is not {source}")
    generated = {name for name in sources if name.startswith(("completions/", "man/"))}
    same("shared-data of pyproject.toml", set(SHARED), generated)


def try_out(prefix: Path, work: Path) -> None:
    """Type what a new user would, far from the sources."""
    for line, printed in TRIED:
        said = run(["/bin/sh", "-c", line], cwd=work, path=prefix / "bin")
        if not re.fullmatch(printed, said):
            fail(f"{line}: printed {said!r}")
    for target in SHARED.values():
        if not (prefix / target).is_file():
            fail(f"{target} is not installed")
    if shutil.which("man"):  # beside the program: man finds it from PATH
        for page in ("emqctl", "emqctl-requeue", "emqctl-config", "emqctl-exit-codes"):
            found = run(["man", "-w", page], cwd=work, path=prefix / "bin").strip()
            if not Path(found).is_relative_to(prefix):
                fail(f"man {page} shows {found}")


def try_shells(prefix: Path) -> None:
    """Press TAB in real shells."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/terminal/test_shells.py"]
    run(command, cwd=ROOT, EMQCTL_TEST_PREFIX=str(prefix))


def environment(folder: Path, requirement: str) -> Path:
    """Make a virtual environment with one thing installed."""
    venv.create(folder, with_pip=True)
    run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", requirement], cwd=folder)
    return folder


def run(command: list[str], *, cwd: Path, path: Path | None = None, **variables: str) -> str:
    """Run a program to its end and return what it printed; one that fails is the end of this one too."""
    say("$ " + " ".join(command))
    ours = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MANPATH", "VIRTUAL_ENV"}}
    found = {"PATH": f"{path}:{ours['PATH']}"} if path else {}
    done = subprocess.run(
        command, cwd=cwd, env={**ours, **found, **variables}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        fail(f"that ended with {done.returncode}: {done.stdout[-4000:]}")
    return done.stdout


def same(what: str, found: Iterable[str], wanted: Iterable[str]) -> None:
    """Fail unless two sets of names are the same."""
    differences = [f"{what} lacks {name}" for name in sorted(set(wanted) - set(found))]
    differences += [f"{what} has {name}" for name in sorted(set(found) - set(wanted))]
    if differences:
        fail("\n".join(differences))


def say(line: str) -> None:
    """Tell how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fail(reason: str) -> None:
    """End here."""
    sys.exit(f"distribution: {reason}")


if __name__ == "__main__":
    main()
