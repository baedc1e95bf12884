# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The matrix of captures in a browser: dark and light, on a desk and on a phone, and what a click on a cell opens.

With SCREENSHOTS=directory in the environment it leaves pictures of what it saw there."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
PARLEY = os.environ.get("PARLEY", "parley")
SOURCE_DIR = os.environ.get("PARLEY_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", ".."))
SCREENSHOTS = os.environ.get("SCREENSHOTS")
SHOWN = "[...document.querySelectorAll('section.cell')].filter(s=>getComputedStyle(s).display!=='none')"
CAPTURES = {"made_01_v1_nomarker": "alpha--beta", "made_10_badcrc": "alpha--beta--2", "siw_v2_reject": "gamma--beta",
            "made_12_v2_rtr_read": "gamma--alpha", "made_02_markers_both_one_per_seg": "beta--alpha",
            "siw_probe_startup": "parley--siw"}


class Matrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="parley-matrix-")
        captures = os.path.join(cls.directory.name, "captures")
        os.makedirs(captures)
        for source, name in CAPTURES.items():
            shutil.copy(os.path.join(SOURCE_DIR, "tests", "captures", "iwarp", source + ".pcap"),
                        os.path.join(captures, name + ".pcap"))
        with open(os.path.join(captures, "<img src=x onerror=alert(1)>.pcap"), "wb") as file:
            file.write(b"no capture")
        cls.page = os.path.join(cls.directory.name, "matrix.html")
        subprocess.run([PARLEY, "pcap", "matrix", captures, "--html", cls.page, "--title", "Event </title><b>2026"],
                       capture_output=True, check=False)
        cls.browser = Browser(CHROMIUM)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.directory.cleanup()

    def open(self, **how):
        return Page(self.browser, f"file://{self.page}", **how)

    def shot(self, page, name):
        if SCREENSHOTS:
            page.screenshot(os.path.join(SCREENSHOTS, name + ".png"))

    def test_it_is_one_file_without_script_that_asks_for_nothing(self):
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(text, r"<script|@import|url\(|https?://")
        self.assertEqual(re.findall(r"<(?:img|iframe|object|embed)\b", text), [])
        for dark in (False, True):
            page = self.open(dark=dark)
            self.assertEqual(page.complaints(), [])
            self.shot(page, f"matrix-{'dark' if dark else 'light'}")

    def test_names_of_files_and_the_title_stay_texts(self):
        page = self.open()
        self.assertEqual(page.js("document.querySelectorAll('img,[onerror]').length"), 0)
        self.assertEqual(page.js("document.querySelector('h1').textContent"), "Event </title><b>2026")

    def test_a_cell_opens_its_connections_with_findings_and_frames(self):
        page = self.open()
        self.assertEqual(page.js(SHOWN + ".length"), 0)
        page.js("document.querySelector('td.failed a').click()")
        self.assertEqual(page.js(SHOWN + ".length"), 1)
        self.assertRegex(page.js(SHOWN + "[0].querySelector('li.error').textContent"), r"error, frame \d+ .*\[RFC \d+ §")
        page.js(SHOWN + "[0].querySelector('details').open=true")
        self.assertRegex(page.js(SHOWN + "[0].querySelector('pre').textContent"), r"MPA Request")
        self.shot(page, "matrix-cell")
        page.js("document.querySelectorAll('td.passed a')[0].click()")
        self.assertEqual(page.js(SHOWN + ".length"), 1)
        self.assertEqual(page.js(SHOWN + "[0].querySelectorAll('li.error').length"), 0)

    def test_every_cell_leads_somewhere(self):
        page = self.open()
        self.assertGreater(page.js("document.querySelectorAll('td a').length"), 4)
        self.assertTrue(page.js("[...document.querySelectorAll('td a')].every(a=>document.querySelector("
                                "a.getAttribute('href')+' article'))"))

    def test_on_a_phone_only_the_table_scrolls_sideways_and_cells_are_large_enough(self):
        page = self.open(width=390, height=844)
        self.assertLessEqual(page.js("document.documentElement.scrollWidth"), 390)
        self.assertGreaterEqual(page.js("Math.min(...[...document.querySelectorAll('td a')].map("
                                        "a=>a.getBoundingClientRect().height))"), 44)
        self.shot(page, "matrix-phone")
        page.js("document.querySelector('td.failed a').click()")
        self.assertLessEqual(page.js("document.documentElement.scrollWidth"), 390)
        self.shot(page, "matrix-phone-cell")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
