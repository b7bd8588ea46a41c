"""Takes ONNX Runtime's shared library out of its Python wheel.

    python3 tools/fetch_onnxruntime.py DIR

leaves `DIR/libonnxruntime.so`. pip chooses the wheel for this machine; nothing is installed.
"""
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "onnxruntime==1.32.0"


def main(target: Path) -> None:
    library, stamp = target / "libonnxruntime.so", target / "PACKAGE"
    if library.exists() and stamp.exists() and stamp.read_text() == PACKAGE:
        return
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
             "--dest", scratch, PACKAGE],
            check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [n for n in archive.namelist() if Path(n).name.startswith("libonnxruntime.so")]
            with archive.open(member) as source, open(Path(scratch) / "library", "wb") as copy:
                shutil.copyfileobj(source, copy)
        (Path(scratch) / "library").rename(library)
    stamp.write_text(PACKAGE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
