# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The ladder's HTML page as a person meets it: in a browser, dark and light, on a desk and on a phone, without script.

With SCREENSHOTS=directory in the environment it leaves pictures of what it saw there."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
LADDER_PAGES = os.environ.get("LADDER_PAGES", "ladder_pages")
SCREENSHOTS = os.environ.get("SCREENSHOTS")
ROWS = "[...document.querySelectorAll('svg.wires .r')]"
ITEMS = "[...document.querySelectorAll('#index li')]"
LISTED = ITEMS + ".filter(li=>getComputedStyle(li).display!=='none')"


class Ladder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="parley-ladder-")
        made = subprocess.run([LADDER_PAGES, cls.directory.name], capture_output=True, text=True, check=True)
        cls.expected = json.loads(made.stdout)
        cls.browser = Browser(CHROMIUM)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.directory.cleanup()

    def open(self, name, **how):
        return Page(self.browser, f"file://{self.directory.name}/{name}.html", **how)

    def shot(self, page, name):
        if SCREENSHOTS:
            page.screenshot(os.path.join(SCREENSHOTS, name + ".png"))

    def test_it_loads_with_every_row_and_without_a_complaint(self):
        for name, about in self.expected.items():
            for dark in (False, True):
                with self.subTest(name, dark=dark):
                    page = self.open(name, dark=dark)
                    self.assertEqual(page.js(ROWS + ".length"), about["rows"])
                    self.assertEqual(page.js(f"{ROWS}.filter(r=>r.querySelector('.w[marker-end*=cross]')&&"
                                             "r.matches('.lost')).length"), about["dropped"])
                    self.assertEqual(page.js(f"{ROWS}.filter(r=>r.matches('.again')).length"), about["repeated"])
                    self.assertEqual(page.js("document.querySelectorAll('.hosts b').length"), about["hosts"])
                    self.assertEqual(page.complaints(), [])

    def test_it_is_one_file_that_asks_for_nothing(self):
        for name in self.expected:
            with open(f"{self.directory.name}/{name}.html", encoding="utf-8") as file:
                text = file.read()
            with self.subTest(name):
                page = re.sub(r"<title>.*?</title>", "", text, flags=re.S)
                self.assertEqual(re.findall(r"""<(?:link|img|script|iframe|object|embed)\b[^>]*\b(?:src|href)=(?!["']?data:)""",
                                            page), [])
                self.assertNotRegex(text, r"@import|url\((?!#)|https?://")

    def test_texts_from_the_wire_stay_texts(self):
        for script in (True, False):
            page = self.open("two", script=script)
            self.assertEqual(page.js("document.querySelectorAll('img,[onerror],[onload]').length"), 0)
            self.assertEqual(page.js("document.querySelectorAll('script').length"), 2)
            self.assertIn("</script><img src=x onerror=alert(1)>", page.js("document.querySelector('h1').textContent"))
            self.assertIn("<svg onload=alert(2)>", page.js("document.querySelector('#f0').textContent"))
            self.assertEqual(page.complaints(), [])

    def test_a_click_shows_every_field_and_escape_hides_them(self):
        page = self.open("run")
        self.assertTrue(page.js("document.querySelector('#panel').hidden"))
        reply = f"{ROWS}.find(r=>r.dataset.name==='MPA Reply')"
        page.click(reply + ".querySelector('.l')")
        self.assertFalse(page.js("document.querySelector('#panel').hidden"))
        text = page.js("document.querySelector('#panel').innerText")
        for word in ("MPA Reply", "responder → initiator", "dropped by", "loss", "Ethernet", "IPv4", "TCP", "Window",
                     "PD_Length", "IRD", "welcome </script><img src=x onerror=alert(1)>"):
            self.assertIn(word, text)
        self.assertEqual(page.js("document.querySelectorAll('#panel dt').length"),
                         page.js("document.querySelectorAll('#panel dd').length"))
        self.shot(page, "panel")
        page.key("Escape", 27)
        self.assertTrue(page.js("document.querySelector('#panel').hidden"))
        self.assertEqual(page.complaints(), [])

    def test_the_keyboard_reaches_every_row(self):
        page = self.open("run")
        page.js(ROWS + "[0].focus()")
        page.key("ArrowDown", 40)
        page.key("ArrowDown", 40)
        self.assertEqual(page.js("document.activeElement.id"), "r2")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        self.assertFalse(page.js("document.querySelector('#panel').hidden"))
        page.key("ArrowUp", 38)
        self.assertEqual(page.js("document.activeElement.id"), "r1")
        self.assertEqual(page.js("document.querySelector('.r.on').id"), "r1")

    def test_filters_leave_what_matches_and_close_the_gaps(self):
        page = self.open("run")
        whole = page.js("document.querySelector('svg.wires').getAttribute('height')|0")
        shown = f"{ROWS}.filter(r=>!r.matches('.gone')).map(r=>r.dataset.layer)"
        page.js("document.querySelectorAll('.tools [data-layer]').forEach(c=>{if(c.dataset.layer!=='mpa')c.click()})")
        layers = page.js(shown)
        self.assertTrue(layers)
        self.assertEqual({layer for layer in layers if layer not in ("note", "note crash", "violation")}, {"mpa"})
        self.assertLess(page.js("document.querySelector('svg.wires').getAttribute('height')|0"), whole / 2)
        tops = page.js(f"{ROWS}.filter(r=>!r.matches('.gone')).map(r=>r.getBoundingClientRect().top)")
        self.assertEqual(tops, sorted(tops))
        page.js("document.querySelectorAll('.tools [data-layer]').forEach(c=>{if(!c.checked)c.click()})")
        self.assertEqual(page.js("document.querySelector('svg.wires').getAttribute('height')|0"), whole)
        page.js("(()=>{const f=document.querySelector('#find');f.value='reply IRD';"
                "f.dispatchEvent(new Event('input',{bubbles:true}))})()")
        names = page.js(f"{ROWS}.filter(r=>!r.matches('.gone')).map(r=>r.dataset.name)")
        self.assertTrue(names and all(name.startswith("MPA Reply") for name in names), names)
        self.assertIn(" of ", page.js("document.querySelector('#count').textContent"))
        self.assertEqual(page.complaints(), [])

    def test_the_script_lays_out_as_the_page_was_written(self):
        for name in ("run", "two", "eight"):
            where = f"{ROWS}.map(r=>r.getAttribute('transform')+[...r.querySelectorAll('.w')].map(w=>w.getAttribute('y2')))"
            page = self.open(name)
            before = page.js(where)
            page.js("document.querySelector('#only').dispatchEvent(new Event('input',{bubbles:true}))")
            self.assertEqual(page.js(where), before, name)

    def test_it_fits_a_phone(self):
        for name in ("run", "three", "two", "eight"):
            for dark in (False, True):
                with self.subTest(name, dark=dark):
                    page = self.open(name, width=360, height=740, phone=True, dark=dark)
                    self.assertEqual(page.js("document.documentElement.scrollWidth"), 360)
                    self.assertEqual(page.js("document.body.scrollWidth"), 360)
                    self.assertGreaterEqual(page.js(f"Math.min(...{ROWS}.map(r=>parseFloat(getComputedStyle("
                                                    "r.querySelector('text')).fontSize)))"), 11)
                    self.shot(page, f"phone-{name}-{'dark' if dark else 'light'}")
        page = self.open("run", width=360, height=740, phone=True)
        page.click(ROWS + ".find(r=>r.dataset.name==='MPA Request').querySelector('.l')")
        box = page.js("(()=>{const b=document.querySelector('#panel').getBoundingClientRect();"
                      "return [b.left,b.right,b.bottom]})()")
        self.assertEqual(box, [0, 360, 740])
        self.assertLess(page.js("document.querySelector('.r.on').getBoundingClientRect().bottom"),
                        page.js("document.querySelector('#panel').getBoundingClientRect().top"))
        self.assertEqual(page.js("document.documentElement.scrollWidth"), 360)
        self.shot(page, "phone-panel")

    def test_labels_of_a_run_between_two_stay_on_the_screen(self):
        for width in (360, 768, 1200, 1600):
            with self.subTest(width=width):
                page = self.open("run", width=width, height=800, phone=width == 360)
                outside = page.js(ROWS + ".flatMap(r=>[...r.querySelectorAll('text')]).filter(t=>{const b=t.getBoundingClientRect();"
                                  f"return b.left<0||b.right>{width}}}).map(t=>t.textContent)")
                self.assertEqual(outside, [])

    def test_dark_and_light_differ_and_can_be_read(self):
        contrast = """(()=>{
          const light=c=>{const v=c.match(/[\\d.]+/g).slice(0,3).map(x=>{x/=255;return x<=.03928?x/12.92:((x+.055)/1.055)**2.4});
            return .2126*v[0]+.7152*v[1]+.0722*v[2]};
          const back=light(getComputedStyle(document.body).backgroundColor);
          const ratio=c=>{const l=light(c);return (Math.max(l,back)+.05)/(Math.min(l,back)+.05)};
          return Math.min(...[...document.querySelectorAll('svg.wires text,header *,.tools label')].map(e=>{
            const s=getComputedStyle(e);return ratio(e.closest('svg')?s.fill:s.color)}))})()"""
        backgrounds = []
        for dark in (False, True):
            # WCAG 2.1 §1.4.3: text of this size needs 4.5 to 1.
            self.assertGreaterEqual(self.open("three", dark=dark).js(contrast), 4.5, "dark" if dark else "light")
            page = self.open("two", dark=dark)
            backgrounds.append(page.js("getComputedStyle(document.body).backgroundColor"))
            self.assertGreaterEqual(page.js(contrast), 4.5, "dark" if dark else "light")
        self.assertNotEqual(*backgrounds)

    def test_without_script_the_ladder_and_the_fields_are_there(self):
        page = self.open("run", script=False)
        self.assertEqual(page.js(ROWS + ".length"), self.expected["run"]["rows"])
        self.assertEqual(page.js("getComputedStyle(document.querySelector('.tools')).display"), "none")
        self.assertEqual(page.js("document.querySelectorAll('#frames details').length"), self.expected["run"]["rows"])
        self.assertIn("MPA Reply", page.js("[...document.querySelectorAll('svg title')].map(t=>t.textContent).join()"))
        page.click(ROWS + "[3].querySelector('.l')")
        self.assertTrue(page.js("document.querySelector('#f3').closest('details').open"))
        self.assertEqual(page.complaints(), [])

    def test_a_capture_shows_its_frames_fields_and_findings(self):
        page = self.open("capture")
        page.click(f"{ROWS}.find(r=>r.dataset.name==='MPA Request').querySelector('.l')")
        text = page.js("document.querySelector('#panel').innerText")
        for word in ("MPA Request", "initiator → responder", "Frame", "PD_Length", "Private data as text", "</script><img"):
            self.assertIn(word, text)
        self.assertNotIn("arrived after", text)
        page.click(f"{ROWS}.find(r=>r.dataset.name==='Send').querySelector('.l')")
        text = page.js("document.querySelector('#panel').innerText")
        for word in ("ULPDU_Length", "MSN", "CRC", "right"):
            self.assertIn(word, text)
        broken = page.js("document.querySelector('.broken').innerText")
        self.assertIn("RFC 5044 §4.4", broken)
        page.click("document.querySelector('.broken a')")
        self.assertIn("the initiator sent an FPDU with CRC", page.js("document.querySelector('.r.violation').textContent"))
        self.assertIn("error, frame", page.js("document.querySelector('#panel').innerText"))
        self.assertEqual(page.complaints(), [])
        self.shot(page, "capture")

    def test_several_connections_stand_in_one_page(self):
        for how in ({}, {"dark": True}, {"script": False}, {"width": 360, "height": 740, "phone": True}):
            with self.subTest(**how):
                page = self.open("book", **how)
                self.assertEqual(page.js("document.querySelectorAll('iframe').length"), 2)
                self.assertEqual(page.js("document.querySelectorAll('li a').length"), 2)
                self.assertIn("4 more connections are left out", page.js("document.body.innerText"))
                self.assertEqual(page.js("document.querySelectorAll('img,[onerror]').length"), 0)
                self.assertEqual(page.js("document.documentElement.scrollWidth"), how.get("width", page.js("innerWidth")))
                inside = "[...document.querySelectorAll('iframe')].map(f=>f.contentDocument.querySelectorAll('.r').length)"
                self.assertTrue(all(page.js(inside)))
                self.assertEqual(page.complaints(), [])
        self.shot(self.open("book", width=1200, height=1600), "book")

    def pick(self, page, what, value):
        page.js(f"(()=>{{const f=document.querySelector('#index {what}');f.value='{value}';"
                "f.dispatchEvent(new Event('input',{bubbles:true}))})()")

    def test_the_index_of_a_book_filters_by_result_and_words(self):
        for how in ({}, {"dark": True}, {"width": 360, "height": 740, "phone": True}):
            with self.subTest(**how):
                page = self.open("book", **how)
                sections = "[...document.querySelectorAll('section')].filter(s=>getComputedStyle(s).display!=='none').map(s=>s.id)"
                self.assertEqual(page.js(ITEMS + ".map(li=>li.dataset.result)"), ["failed", "passed"])
                self.assertEqual(page.js("document.querySelectorAll('#index select').length"), 0)  # one outcome alone
                page.click("document.querySelector('#index [data-result=passed]')")
                self.assertEqual(page.js(sections), ["c1"])
                self.assertEqual(page.js(LISTED + ".length"), 1)
                self.assertEqual(page.js("document.querySelector('#index output').textContent"), "1 of 2 connections")
                page.click("document.querySelector('#index [data-result=passed]')")
                page.click("document.querySelector('#index [data-result=failed]')")
                self.assertEqual(page.js(sections), ["c2"])
                page.click("document.querySelector('#index [data-result=failed]')")
                for words, wanted in (("192.0.2.3", ["c1"]), ("192.0.2.1 PASSED", ["c2"]), ("nowhere", []), ("", ["c1", "c2"])):
                    self.pick(page, "[type=search]", words)
                    self.assertEqual(page.js(sections), wanted, words)
                self.assertEqual(page.js("document.querySelector('#index output').textContent"), "")
                self.assertEqual(page.complaints(), [])

    def test_the_index_of_a_run_leaves_the_rows_of_a_connection(self):
        page = self.open("three")
        of = f"[...new Set({ROWS}.filter(r=>!r.matches('.gone')).map(r=>r.dataset.c))].sort()"
        self.assertEqual(page.js(ITEMS + ".map(li=>li.dataset.result+' '+li.dataset.outcome)"),
                         ["failed rejected", "passed established", "passed rejected"])
        self.assertEqual(page.js(of), ["0", "1", "2", "3"])
        self.assertTrue(page.js("document.querySelector('#index button').hidden"))
        page.click(ITEMS + "[1].querySelector('a')")
        self.assertEqual(page.js(of), ["2"])
        self.assertEqual(page.js(ITEMS + ".map(li=>li.querySelector('a').getAttribute('aria-current'))"), [None, "true", None])
        self.assertIn(" of ", page.js("document.querySelector('#count').textContent"))
        page.click(ITEMS + "[0].querySelector('a')")
        self.assertEqual(page.js(of), ["1"])
        self.assertTrue(page.js(f"{ROWS}.some(r=>r.matches('.violation')&&!r.matches('.gone'))"))
        page.click("document.querySelector('#index button')")
        self.assertEqual(page.js(of), ["0", "1", "2", "3"])
        self.pick(page, "select", "rejected")
        self.assertEqual(page.js(LISTED + ".map(li=>li.value)"), [1, 3])
        self.assertEqual(page.js(of), ["0", "1", "3"])
        self.pick(page, "select", "")
        page.click("document.querySelector('#index [data-result=passed]')")
        self.assertEqual(page.js(of), ["0", "1"])
        self.assertEqual(page.complaints(), [])
        self.shot(self.open("three", dark=True), "index")

    def test_the_index_works_by_keyboard(self):
        page = self.open("three")
        page.js("document.querySelector('#index [data-result]').focus()")
        for target in ("INPUT", "SELECT", "INPUT", "A"):  # the other box, outcomes, words, the first connection
            page.key("Tab", 9)
            self.assertEqual(page.js("document.activeElement.tagName"), target)
        page.key("ArrowDown", 40)
        page.key("ArrowDown", 40)
        self.assertEqual(page.js("document.activeElement.parentElement.value"), 3)
        page.key("ArrowUp", 38)
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        self.assertEqual(page.js(ITEMS + "[1].querySelector('a').getAttribute('aria-current')"), "true")
        book = self.open("book")
        book.key("/", 191)
        self.assertEqual(book.js("document.activeElement.type"), "search")
        self.assertEqual(book.js("[...document.querySelectorAll('#index :is(input,select,button)')]"
                                 ".every(e=>e.closest('label')||e.getAttribute('aria-label')||e.textContent)"), True)

    def test_without_script_the_index_is_a_list_of_links(self):
        page = self.open("three", script=False)
        self.assertEqual(page.js("getComputedStyle(document.querySelector('#index form')).display"), "none")
        self.assertEqual(page.js(LISTED + ".length"), 3)
        self.assertTrue(page.js(ITEMS + ".every(li=>document.querySelector(li.querySelector('a').getAttribute('href')))"))
        for name in ("capture", "empty", "two"):
            self.assertEqual(self.open(name).js("document.querySelectorAll('#index').length"), 0, name)

    def test_pictures_for_people(self):
        for name, how in (("desk-light", {}), ("desk-dark", {"dark": True})):
            page = self.open("run", width=1200, height=1300, **how)
            self.assertGreater(page.js("document.querySelector('svg.wires').getBoundingClientRect().width"), 1000)
            self.shot(page, name)
        page = self.open("eight", width=1200, height=1000)
        self.shot(page, "eight")


if __name__ == "__main__":
    if SCREENSHOTS:
        os.makedirs(SCREENSHOTS, exist_ok=True)
    sys.exit(unittest.main(verbosity=2))
