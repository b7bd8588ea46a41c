"""Takes ONNX Runtime's shared libraries out of their Python wheels.

    python3 tools/fetch_onnxruntime.py DIR         DIR/libonnxruntime.so, for the CPU
    python3 tools/fetch_onnxruntime.py DIR cann    the same and the CANN provider beside it, for Ascend

pip chooses the wheel for this machine; nothing is installed. The CANN wheels exist for a few interpreters only, but the
libraries wanted do not depend on Python, so that of one interpreter serves all.
"""
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# device: the package, what pip has to be told to find it, the libraries wanted from it (by the start of their names)
PACKAGES = {
    "cpu": ("onnxruntime==1.32.0", [], ["libonnxruntime.so"]),
    "cann": ("onnxruntime-cann==1.24.4", ["--python-version", "3.11"],
             ["libonnxruntime.so", "libonnxruntime_providers_cann.so", "libonnxruntime_providers_shared.so"]),
}


def main(target: Path, device: str = "cpu") -> None:
    package, hints, libraries = PACKAGES[device]
    stamp = target / "PACKAGE"
    if stamp.exists() and stamp.read_text() == package and all((target / name).exists() for name in libraries):
        return
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *hints,
             "--dest", scratch, package],
            check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in libraries:
                (member,) = [n for n in archive.namelist() if Path(n).name.startswith(name)]
                with archive.open(member) as source, open(Path(scratch) / name, "wb") as copy:
                    shutil.copyfileobj(source, copy)
                (Path(scratch) / name).rename(target / name)
    # What is linked against the library asks for it by its soname.
    soname = target / "libonnxruntime.so.1"
    soname.unlink(missing_ok=True)
    soname.symlink_to("libonnxruntime.so")
    stamp.write_text(package)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], *([d] for d in PACKAGES)):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *sys.argv[2:])
