#!/usr/bin/env python3
"""Opens the page of `meshwright serve` in headless Chromium, turns its knobs, and sends its server hostile requests.

    live_browser.py PROGRAM [--pictures FOLDER]

With AXE=axe.min.js in its environment every view is looked at by axe, too.
Prints a line a finding; exit 1 if there was one, 77 if there is no Chromium (hostile requests are sent all the same).
"""
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import MEASURE, Browser, find_chromium  # noqa: E402

SLOWEST_CHANGE_MS = 50
T5 = "#model=t5_1_0_11B&topology=v4-512&model_parallel_submesh=4,2,2,1&batch_size=896&num_microbatches=4&optimizer=adamw&task_feature_lengths=512,512"
PIPELINE = "#model=llama3_70b&topology=h100:64x8&software=megatron&num_partitions=8&pipeline_stages=4&batch_size=512&num_microbatches=32&optimizer=adamw&task_feature_lengths=4096"
# The pointer over the first chart of the view, at shares of its width and height.
MOVE = """const move = (right, down) => { const chart = document.querySelector("#view svg"), box = chart.getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + right * box.width, clientY: box.top + down * box.height, bubbles: true })); };
"""
# From a click to the frame behind the new verdict.
CHANGE = """
(async () => {
  const times = [];
  for (let i = 0; i < 9; i++) {
    const row = [...document.querySelectorAll(".what[data-key=num-microbatches].fit, .what[data-key=num-microbatches].unfit")].filter((b) => !b.classList.contains("now"));
    const pressed = row[i % row.length], begun = performance.now(), root = document.documentElement;
    const painted = new Promise((done) => new MutationObserver((_, me) => { me.disconnect(); requestAnimationFrame(() => done(performance.now() - begun)); })
      .observe(root, { attributes: true, attributeFilter: ["data-painted-ms"] }));
    const settled = new Promise((done) => new MutationObserver((_, me) => { me.disconnect(); done(); }).observe(root, { attributes: true, attributeFilter: ["data-settled-ms"] }));
    pressed.click();
    times.push(await painted);
    await settled;
  }
  return times.sort((a, b) => a - b)[4];
})()
"""


def until_late():
    """Asks again and again, for as long as a busy machine may need."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        yield
        time.sleep(0.02)


class Served:
    def __init__(self, program, *arguments, environment=None):
        self.process = subprocess.Popen([program, "serve", *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.address = self.process.stdout.readline().strip()
        parts = urllib.parse.urlsplit(self.address)
        self.host, self.port, self.token = parts.netloc, parts.port, parts.query.partition("=")[2]

    def send(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in {"X-Meshwright-Token": self.token, **headers}.items():
            if value is not None:
                connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmRSS")).split()[1])

    def close(self):
        self.process.send_signal(2)
        return self.process.wait(timeout=60)


def hostile(served):
    found = []

    def expect(name, status, *request, **headers):
        got, text = served.send(*request, **headers)
        if got != status:
            found.append(f"{name}: status {got}, not {status}: {text[:100]}")
        return text

    question = b'["topology","v4-8"]'
    expect("an honest question", 200, "POST", "/ask", question)
    expect("without a token", 403, "POST", "/ask", question, X_Meshwright_Token=None, **{"X-Meshwright-Token": None})
    expect("another token", 403, "POST", "/ask", question, **{"X-Meshwright-Token": "0" * 32})
    expect("another host", 403, "POST", "/ask", question, Host="evil.example:80")
    expect("another page", 403, "POST", "/ask", question, Origin="http://evil.example")
    expect("a page from a file", 403, "POST", "/ask", question, Origin="null")
    expect("its own page", 200, "POST", "/ask", question, Origin="http://" + served.host)
    expect("the page without a token", 403, "GET", "/", **{"X-Meshwright-Token": None})
    expect("a path", 404, "GET", "/../../etc/passwd")
    expect("another method", 405, "PUT", "/ask", question)
    expect("no JSON", 400, "POST", "/ask", b"\x00\xff{")
    expect("numbers", 400, "POST", "/ask", b"[1,2]")
    expect("too long", 413, "POST", "/ask", b'["' + b"x" * (1 << 20) + b'"]')
    for name, words in {"a file": '["predict","/etc/passwd"]', "a model's file": '["predict","--model","@/etc/passwd","--topology","v4-8","--batch-size","8","--task-feature-lengths","8"]',
                        "a file to write": '["topology","v4-8","--out","/tmp/meshwright-written.json"]', "a run": '["run","x.json"]', "a batch": '["batch"]',
                        "a profile": '["predict","--model","t5_1_1_small","--topology","v4-8","--batch-size","8","--task-feature-lengths","8,8","--profile","/etc/hostname"]'}.items():
        text = expect(name, 200, "POST", "/ask", words.encode())
        if '"error"' not in text or "root:" in text:
            found.append(f"{name} is not refused: {text[:120]}")
    if os.path.exists("/tmp/meshwright-written.json"):
        found.append("a page wrote a file")
    for name, words in {"a file that includes another": ["held", "x.gin", "include '/etc/passwd'\n", "import", "x.gin"], "a path as a name": ["held", "../x.gin", "x = 1\n", "import", "../x.gin"],
                        "another file than the one held": ["held", "x.gin", "x = 1\n", "import", "/etc/passwd"], "a file without its text": ["import", "/etc/passwd"],
                        "an option as a name": ["held", "--out", "x = 1\n", "import", "--out", "/tmp/meshwright-written.json"]}.items():
        text = expect(name, 200, "POST", "/ask", json.dumps(words).encode())
        if '"error"' not in text or "root:" in text or os.path.exists("/tmp/meshwright-written.json"):
            found.append(f"{name} is not refused: {text[:120]}")
    text = expect("a gin file held", 200, "POST", "/ask", json.dumps(["held", "x.gin", "include 't5x/examples/t5/t5_1_1/large.gin'\nBATCH_SIZE = 64\n", "import", "x.gin"]).encode())
    if '"batch_size":64' not in text.replace(" ", "") or "t5_1_1_large" not in text:
        found.append(f"a gin file is not read: {text[:200]}")
    found += slow(served)
    before = served.memory_kib()
    for i in range(600):
        served.send("POST", "/ask", bytes((i * 37 + j * j) % 256 for j in range(i % 90)))
    if served.memory_kib() > before + 2048:
        found.append(f"600 requests made the server grow from {before} to {served.memory_kib()} KiB")
    return found


def slow(served, count=200):
    """Connections that send a byte now and then keep nobody out, and are ended."""
    found, sockets = [], []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", served.port))
        one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        sockets.append(one)
    begun, slowest_s = time.monotonic(), 0
    left = sockets
    while left and time.monotonic() - begun < 60:
        asked = time.monotonic()
        status, _ = served.send("POST", "/ask", b'["topology","v4-8"]')
        slowest_s = max(slowest_s, time.monotonic() - asked)
        if status != 200:
            found.append(f"beside {count} slow connections: status {status}")
        left = [one for one in left if drips(one)]
        time.sleep(0.5)
    print(f"beside {count} slow connections, which were ended after {time.monotonic() - begun:.1f} s, an answer took {slowest_s * 1e3:.0f} ms at most")
    if left or slowest_s > 5:
        found.append(f"{len(left)} of {count} slow connections are held; an answer took {slowest_s:.1f} s")
    for one in sockets:
        one.close()
    return found


def drips(one):
    """Sends a byte; whether the other side still listens."""
    try:
        one.sendall(b"x")
        one.setblocking(False)
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        one.setblocking(True)


def wait_settled(browser):
    for _ in until_late():
        if browser.evaluate("document.documentElement.dataset.settledMs"):
            return
    raise RuntimeError("the page never settled: " + str(browser.evaluate("document.body.innerText.slice(0, 400)")))


def visit(browser, address):
    browser.events.clear()
    browser.ask("Page.navigate", url="about:blank")
    browser.wait("Page.loadEventFired")
    browser.ask("Page.navigate", url=address)
    browser.wait("Page.loadEventFired")
    wait_settled(browser)


def press(browser, key, code, number):
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number)


def holds(browser, text):
    """Whether it is so by now: what the page has not drawn yet is not there to be asked."""
    try:
        return browser.evaluate(text)
    except RuntimeError:
        return False


def knobs(browser, served):
    """Changes, undo, refusals, the keyboard, a link opened elsewhere."""
    found = []

    def expect(what, text):
        for _ in until_late():
            if holds(browser, text):
                return
        found.append(what)

    visit(browser, served.address + T5)
    expect("T5 11B fits on v4-512", "document.querySelector('#headline').textContent.startsWith('It fits')")
    expect("the link is kept", "location.hash.includes('batch_size=896')")
    for name, plan, most in (("T5 11B on v4-512", T5, SLOWEST_CHANGE_MS), ("Llama 3 70B over 512 GPUs", PIPELINE, 150)):
        visit(browser, served.address + plan)
        took = browser.evaluate(CHANGE)
        for _ in range(4):  # others may have had the processors
            took = took if took <= most else min(took, browser.evaluate(CHANGE))
        print(f"{name}: a change is painted in {took:.1f} ms")
        if took > most:
            found.append(f"{name}: a change is painted in {took:.1f} ms, not in {most}")
    visit(browser, served.address + T5)
    browser.evaluate("[...document.querySelectorAll('header button')].find((b) => b.textContent === 'pin').click()")
    browser.evaluate("document.querySelector('.what[data-key=num-microbatches][data-value=\"8\"]').click()")
    expect("a click changes the address", "location.hash.includes('num_microbatches=8')")
    expect("the change is said", "document.querySelector('.against b')?.textContent.includes('tokens/s')")
    browser.evaluate("history.back()")
    expect("back is undo", "location.hash.includes('num_microbatches=4')")
    browser.evaluate("document.querySelector('#key-num-microbatches').focus()")
    press(browser, "ArrowUp", "ArrowUp", 38)
    expect("the up arrow takes the next number", "location.hash.includes('num_microbatches=7')")
    browser.evaluate("(() => { const i = document.querySelector('#key-batch-size'); i.value = '13'; i.dispatchEvent(new Event('change')); })()")
    expect("a refused value says why", "!document.querySelector('.alarm').hidden && document.querySelector('.alarm').textContent.includes('13')")
    for tab in ("memory", "time", "machine", "search", "shelf"):
        browser.evaluate(f"document.querySelector('#tab-{tab}').click()")
        expect(f"the view {tab} shows something", "document.querySelector('#view').textContent.length > 40")
    visit(browser, served.address + T5)
    for what, text, shown in (
            ("gin", "include 't5x/examples/t5/t5_1_1/large.gin'\nBATCH_SIZE = 128\n", "location.hash.includes('t5_1_1_large') && location.hash.includes('batch_size=128') && location.hash.includes('v4-512')"),
            ("config.json", json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 31,
                                        "num_key_value_heads": 8, "vocab_size": 128256, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}, indent=1), "location.hash.includes('num_layers%3D31') || location.hash.includes('num_layers=31')"),
            ("YAML", "model_name: llama3-8b\nper_device_batch_size: 4\nmax_target_length: 4096\nici_fsdp_parallelism: 256\nremat_policy: full\n", "location.hash.includes('software=maxtext')"),
            ("nothing that is known", "what is\nthis\n", "!document.querySelector('.reason').hidden && document.querySelector('.reason').textContent.includes('pasted')")):
        browser.evaluate(f"(() => {{ const d = new DataTransfer(); d.setData('text', {json.dumps(text)}); document.body.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData: d, bubbles: true }})); }})()")
        expect(f"{what} is taken when it is pasted", shown)
    visit(browser, served.address + T5.replace("batch_size=896", "batch_size=64"))
    browser.evaluate("document.querySelector('#tab-search').click(); [...document.querySelectorAll('#view button')].find((b) => b.textContent === 'search').click()")
    for _ in until_late():
        if browser.evaluate("document.querySelectorAll('#view tbody tr').length"):
            break
    else:
        found.append("a search answers: " + browser.evaluate("document.querySelector('#view').textContent"))
    expect("plans found are lines, too", "document.querySelectorAll('.plan-line').length > 2")
    expect("the view is in the address", "location.hash.endsWith('view=search')")
    for width in (390, 1280):
        browser.show(width, 900, False)
        time.sleep(0.3)
        found += [f"a search at {width} px: {what}" for what in browser.evaluate(MEASURE)["found"] + barriers(browser)]
    visit(browser, served.address + T5 + "&view=machine")
    expect("a link opens the view that it names, with the load of links", "document.querySelector('#view').textContent.includes('What links carry in one')")
    browser.evaluate("[...document.querySelectorAll('#view button')].find((b) => b.textContent === 'groups of data').click()")
    expect("groups of another axis", "document.querySelector('#view').textContent.includes('over data')")
    browser.evaluate("document.querySelector('.what[data-key=dtype][data-value=fp8]').click(); document.querySelector('.reason .tools button').click()")
    expect("a refusal's remedy is a click away", "document.querySelector('.reason').hidden && document.querySelector('#headline').textContent.startsWith('It fits')")
    browser.evaluate("document.querySelector('[data-key=virtual_stages] .step:last-child').click()")
    expect("a key that nothing is known around says why", "document.querySelector('.reason').textContent.includes('pipeline_stages')")
    visit(browser, served.address + T5 + "&train_tokens=1T&device_hour_price=3.22")
    expect("a price is in the verdict", "document.querySelector('.facts').textContent.includes('price of the training')")
    visit(browser, served.address + T5)
    browser.evaluate(MOVE + "move(0.1, 0.5)")
    expect("the pointer lists the buffers of its time", "/Buffers at [0-9.]+ ms \\((en|de)coder/.test(document.querySelector('#buffers').textContent) && document.querySelectorAll('#buffers tr').length > 8")
    browser.evaluate("document.querySelector('#view svg').focus()")
    press(browser, "ArrowRight", "ArrowRight", 39)
    expect("the keyboard moves the pointer", "document.querySelector('.said').textContent.includes('GiB at')")
    browser.evaluate("document.querySelector('#tab-time').click()")
    browser.evaluate("URL.createObjectURL = (blob) => { blob.text().then((text) => { window.traced = JSON.parse(text).traceEvents; }); return 'data:,'; }")
    browser.evaluate("[...document.querySelectorAll('#view button')].find((b) => b.textContent.startsWith('save trace')).click()")
    expect("the saved trace has arrows", "['s', 'f', 'X', 'C'].every((kind) => window.traced.some((e) => e.ph === kind))")
    browser.evaluate("document.querySelector('#tab-memory').click()")
    visit(browser, served.address + PIPELINE)
    expect("microbatches in flight of a pipeline", "document.querySelector('#view').textContent.includes('at most 4 microbatches in flight on the first')")
    browser.evaluate(MOVE + "move(0.5, 0.35)")
    expect("the pointer lists the buffers of a stage", "/Buffers at .* stage 1, [0-9.]+ microbatch(es)? in flight/.test(document.querySelector('#buffers').textContent)")
    expect("and says what runs", "document.querySelector('.said').textContent.includes('Stage 1 at')")
    browser.evaluate("move(0.01, 0.8)")
    expect("a stage waits before its first pass", "/Stage 3 at 0: .*, 0 microbatches in flight\\. The stage waits/.test(document.querySelector('.said').textContent)")
    return found


def two_at_once(served, chromium):
    """Two pages of one server, each with a plan of its own, changed in turns."""
    pages, found = [Browser(chromium), Browser(chromium)], []
    try:
        for page, plan in zip(pages, (T5, PIPELINE)):
            page.show(1280, 900, False)
            visit(page, served.address + plan)
        for microbatches in ("8", "16", "32"):
            for page in pages:
                page.evaluate("delete document.documentElement.dataset.settledMs; " + f"(() => {{ const i = document.querySelector('#key-num-microbatches'); i.value = '{microbatches}'; i.dispatchEvent(new Event('change')); }})()")
            for page, model in zip(pages, ("t5_1_0_11B", "llama3_70b")):
                wait_settled(page)
                if not page.evaluate(f"location.hash.includes('num_microbatches={microbatches}') && document.title.includes('{model}') && document.querySelector('.alarm').hidden"):
                    found.append(f"two pages at once: {model} with {microbatches} microbatches shows {page.evaluate('document.title')}")
    finally:
        for page in pages:
            page.close()
    return found


def barriers(browser):
    """What axe finds on the page, where AXE names its script (axe.min.js, of npm's axe-core or PyPI's axe-core-python)."""
    if not os.environ.get("AXE"):
        return []
    with open(os.environ["AXE"], encoding="utf-8") as file:
        browser.evaluate(file.read() + ";0")
    answer = browser.evaluate("(async () => { const r = await axe.run(document); return { passed: r.passes.length, found: r.violations.map((v) => `axe: ${v.id}: ${v.nodes[0].html.slice(0, 120)}`) }; })()")
    return answer["found"] + ([] if answer["passed"] > 10 else [f"axe looked at {answer['passed']} rules alone"])


def looks(browser, served, pictures):
    found = []
    for name, plan in (("t5", T5), ("pipeline", PIPELINE), ("unfit", T5.replace("4,2,2,1", "2,2,1,1"))):
        for width, height, dark in ((1280, 900, False), (390, 844, True)):
            browser.show(width, height, dark)
            visit(browser, served.address + plan)
            for tab in ("memory", "time", "machine", "shelf", "sources"):
                browser.evaluate(f"document.querySelector('#tab-{tab}').click()")
                answer = browser.evaluate(MEASURE)
                found += [f"{name}, {tab} at {width} px: {what}" for what in answer["found"] + barriers(browser)]
                if pictures:
                    browser.picture(os.path.join(pictures, f"live-{name}-{tab}-{width}.png"))
            if name == "t5":
                found += browser.keyboard()
            found += [what for what in browser.complaints("/none") if not what.startswith("asks for http://" + served.host)]
    return found


def opens(program):
    """With --open it answers beside a browser that stays in the foreground."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/xdg-open", "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho $$ "$1" >{folder}/opened\nexec sleep 60\n')
        os.chmod(folder + "/xdg-open", 0o700)
        served = Served(program, "--open", environment={"PATH": folder + ":" + os.environ["PATH"]})
        try:
            status, _ = served.send("POST", "/ask", b'["topology","v4-8"]')
            for _ in until_late():
                if os.path.exists(folder + "/opened") and os.path.getsize(folder + "/opened"):
                    break
            with open(folder + "/opened", encoding="ascii") as file:
                browser, opened = file.read().split()
            os.kill(int(browser), 9)
        except OSError as problem:
            return [f"beside a browser it does not answer: {problem}"]
        finally:
            code = served.close()
    return [] if (status, opened, code) == (200, served.address, 0) else [f"--open: status {status}, {opened} opened, exit {code}"]


def main():
    program, pictures = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None
    chromium, browser, found = find_chromium(), None, opens(program)
    served = Served(program)
    try:
        found += hostile(served)
        if chromium:
            browser = Browser(chromium)
            browser.show(1280, 900, False)
            found += knobs(browser, served) + looks(browser, served, pictures) + two_at_once(served, chromium)
    finally:
        if browser:
            browser.close()
        if served.close() != 0:
            found.append("Ctrl-C does not end it well")
    for line in dict.fromkeys(found):
        print(line)
    return 1 if found else 0 if chromium else 77


if __name__ == "__main__":
    sys.exit(main())
