"""sbom.py VERSION PROGRAM… [--static ARCHIVE…]: a bill of materials as SPDX 2.3, of the programs and of every library that is
linked into them, loaded with them, or opened by them later, each with its Debian package and version. Fails if one is of
no package. SOURCE_DATE_EPOCH is its date."""

import datetime
import json
import os
import re
import subprocess
import sys


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def libraries(program):
    """The sonames that a program needs or names."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said("readelf", "-d", program))
    with open(program, "rb") as file:
        opened = re.findall(rb"\0(lib[a-z]+\.so\.\d+)\0", file.read())
    return set(needed) | {name.decode() for name in opened}


def package_of(path):
    for place in (path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True)
        if found.returncode == 0:
            name = found.stdout.split(": ")[0]
            package, version, architecture = said("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", name).split()
            return package, version, architecture
    raise SystemExit(f"sbom: {path}: is of no package")


version, words = sys.argv[1], sys.argv[2:]
split = words.index("--static") if "--static" in words else len(words)
programs, archives = words[:split], words[split + 1:]
places = dict(re.findall(r"^\t(\S+) .*x86-64.* => (\S+)$", said("/sbin/ldconfig", "-p"), re.MULTILINE))
linked = {package_of(archive): "STATIC_LINK" for archive in archives}
for soname in sorted(set().union(*map(libraries, programs))):
    if soname.startswith("ld-linux"):
        continue
    if soname not in places:
        raise SystemExit(f"sbom: {soname}: is not found")
    linked.setdefault(package_of(places[soname]), "DYNAMIC_LINK")
date = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
own = {"SPDXID": "SPDXRef-meshwright", "name": "meshwright", "versionInfo": version, "downloadLocation": "NOASSERTION",
       "filesAnalyzed": False}
packages, relations = [own], [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                               "relatedSpdxElement": own["SPDXID"]}]
for (name, of, architecture), how in sorted(linked.items()):
    reference = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
    purl = f"pkg:deb/debian/{name}@{of}?arch={architecture}".replace("+", "%2B")
    packages.append({"SPDXID": reference, "name": name, "versionInfo": of, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]})
    relations.append({"spdxElementId": own["SPDXID"], "relationshipType": how, "relatedSpdxElement": reference})
json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"meshwright-{version}",
           "documentNamespace": f"urn:meshwright:{version}:{int(date.timestamp())}",
           "creationInfo": {"created": date.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: scripts/sbom.py"]},
           "packages": packages, "relationships": relations}, sys.stdout, indent=1)
print()
