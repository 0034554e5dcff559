"""Builds the wheel: the package, and both programs with the libraries that they need beside them. `make` and the standard
library are enough, so that `pip install .` asks no network.

A wheel is a zip archive of the package and of three files about it (PEP 427); pip calls the two functions at the end
(PEP 517). The oldest C library that the program runs on names the platform (PEP 600).
"""
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT, NAME = HERE.parent, "meshwright"
# Libraries that PEP 600 guarantees on every Linux.
_OF_THE_SYSTEM = re.compile(r"^(libc|libm|libdl|libpthread|librt|libz|libgcc_s|libstdc\+\+|ld-linux[\w-]*)\.so")


def _field(name):
    for line in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + " ="):
            return line.split("=", 1)[1].strip().strip('"')
    raise ValueError(f"pyproject.toml: {name} is missing")


def _said(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _binaries(folder):
    """Both programs, linked to look for libraries beside themselves, and those that not every system has."""
    built = [f"{folder}/{name}" for name in ("meshwright", "meshwright-rank")]
    subprocess.run(["make", "-C", str(ROOT), *built], check=True)
    programs = [ROOT / path for path in built]
    found = dict(re.findall(r"(\S+) => (/\S+)", "".join(_said("ldd", str(program)) for program in programs)))
    return [*programs, *(pathlib.Path(path) for name, path in sorted(found.items()) if not _OF_THE_SYSTEM.match(name))]


def _tag(binaries):
    """The C library whose symbols are the newest among those that the binaries use."""
    asked = [re.findall(r"Name: GLIBC_(\d+)\.(\d+)", _said("readelf", "--version-info", "--wide", str(path))) for path in binaries]
    major, minor = max((int(a), int(b)) for versions in asked for a, b in versions)
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def _files(binaries, tag):
    """Path in the wheel and bytes of each file, in a fixed order."""
    version = _field("version")
    info = f"{NAME}-{version}.dist-info"
    for path in sorted((HERE / NAME).rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed":
            yield path.relative_to(HERE).as_posix(), path.read_bytes()
    for path in binaries:
        yield f"{NAME}/bin/{path.name}", path.read_bytes()
    metadata = (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nSummary: {_field('description')}\n"
                f"Requires-Python: {_field('requires-python')}\nProvides-Extra: tables\nProvides-Extra: pictures\n"
                "Requires-Dist: pandas; extra == 'tables'\nRequires-Dist: matplotlib; extra == 'pictures'\n"
                "Description-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text(encoding="utf-8"))
    yield f"{info}/METADATA", metadata.encode()
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    yield f"{info}/entry_points.txt", b"[console_scripts]\nmeshwright = meshwright._session:main\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version, binaries = _field("version"), _binaries((config_settings or {}).get("build", "build") + "/wheel")
    tag = _tag(binaries)
    name, record = f"{NAME}-{version}-{tag}.whl", ""
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        def put(path, data):
            entry = zipfile.ZipInfo(path, (2000, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            wheel.writestr(entry, data)

        for path, data in _files(binaries, tag):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            put(path, data)
        path = f"{NAME}-{version}.dist-info/RECORD"
        put(path, record + f"{path},,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the sources are the project's tree")
