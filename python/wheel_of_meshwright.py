"""Builds the wheel of this package with the standard library alone, so that `pip install ./python` asks no network.

A wheel is a zip archive of the package and of three files about it (PEP 427); pip calls the two functions below
(PEP 517).
"""
import base64
import hashlib
import pathlib
import zipfile

HERE = pathlib.Path(__file__).parent
NAME, TAG = "meshwright", "py3-none-any"


def _field(name):
    for line in (HERE / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + " ="):
            return line.split("=", 1)[1].strip().strip('"')
    raise ValueError(f"pyproject.toml: {name} is missing")


def _files():
    """Path in the wheel and bytes of each file, in a fixed order."""
    version = _field("version")
    info = f"{NAME}-{version}.dist-info"
    for path in sorted((HERE / NAME).rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed":
            yield path.relative_to(HERE).as_posix(), path.read_bytes()
    metadata = (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nSummary: {_field('description')}\n"
                f"Requires-Python: {_field('requires-python')}\nProvides-Extra: tables\nProvides-Extra: pictures\n"
                "Requires-Dist: pandas; extra == 'tables'\nRequires-Dist: matplotlib; extra == 'pictures'\n"
                "Description-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text(encoding="utf-8"))
    yield f"{info}/METADATA", metadata.encode()
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _field("version")
    name, record = f"{NAME}-{version}-{TAG}.whl", ""
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        def put(path, data):
            wheel.writestr(zipfile.ZipInfo(path, (2000, 1, 1, 0, 0, 0)), data)

        for path, data in _files():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            put(path, data)
        path = f"{NAME}-{version}.dist-info/RECORD"
        put(path, record + f"{path},,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the sources are the project's tree")
