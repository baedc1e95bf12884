# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A headless Chromium, driven through the DevTools protocol over a pipe: no port, no network, no other package."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

LIMIT = 300  # seconds for any one answer: only a hang takes as long, on a slow machine too
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--remote-debugging-pipe"]


class Browser:
    """One browser with a profile of its own, which is gone afterwards."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="parley-chromium-")
        to_child, self.out = os.pipe()
        self.into, from_child = os.pipe()

        def move_pipes():  # the protocol reads descriptor 3 and writes descriptor 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
                                        preexec_fn=move_pipes, close_fds=False, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.serial, self.events = b"", 0, []

    def close(self):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # the session that was started above, and nothing else
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                raise RuntimeError("the browser does not answer")
            got = os.read(self.into, 1 << 20)
            if not got:
                raise RuntimeError("the browser is gone")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.serial += 1
        request = {"id": self.serial, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + LIMIT
        while True:
            message = self._message(deadline)
            if message.get("id") == self.serial:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait(self, session, method):
        deadline = time.monotonic() + LIMIT
        while True:
            for i, event in enumerate(self.events):
                if event.get("sessionId") == session and event.get("method") == method:
                    return self.events.pop(i)
            self.events.append(self._message(deadline))


class Page:
    """A tab with a page in it."""

    def __init__(self, browser, url, width=1200, height=900, dark=False, script=True, phone=False):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url=url)
        browser.wait(self.session, "Page.loadEventFired")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def complaints(self):
        """What a user would find in the console: errors, warnings, exceptions, and requests that should not be."""
        self.js("1")  # whatever was said before this answer is here now
        out = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                out.append(params["exceptionDetails"].get("text", "") + json.dumps(params["exceptionDetails"])[:400])
            if event["method"] == "Runtime.consoleAPICalled":
                out.append("console: " + json.dumps(params["args"])[:400])
            if event["method"] == "Log.entryAdded":
                out.append("log: " + params["entry"]["text"])
            if event["method"] == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                out.append("request: " + params["request"]["url"])
        return out

    def js(self, expression):
        """The value of an expression. Works on pages whose own scripts are off."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def click(self, expression):
        """A real click in the middle of the element that the expression gives."""
        box = self.js(f"(()=>{{const e={expression};e.scrollIntoView({{block:'center',behavior:'instant'}});"
                      "const b=e.getBoundingClientRect();return [b.x+b.width/2,b.y+b.height/2]})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
