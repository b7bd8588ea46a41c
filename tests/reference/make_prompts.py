#!/usr/bin/env python3
"""Writes tests/fixtures/prompts.json: prompts as people write and paste them, and as Wan cleans them.

    pip install ftfy==6.3.1 && python tests/reference/make_prompts.py
"""
import html
import json
import re
from pathlib import Path

import ftfy

PROMPTS = [
    # white space, as Python knows it
    "\t a \n\r\n b\x0b\x0cc  ", "a\x1cb\x1dc\x1ed\x1fe", "a\x85b\xa0c\u1680d\u2003e\u2028f\u2029g\u202fh\u205fi\u3000j",
    "zero\u200bwidth\ufeff", "a&#x20;&#9;&#x1c;b&nbsp;&emsp; c",
    # typography
    "“double” ‘single’ „low“ «guillemets» it’s", "em — en – dots … 3 × 4 ½ ″", "ﬁne ﬂow oﬃce ĳ", "ＦＵＬＬ　ｗｉｄｔｈ，１２３！", "ｶﾀｶﾅ",
    "cafe\u0301 A\u030a n\u0303",
    # character references
    "&lt;b&gt; &amp; &quot;q&quot; &#39;s&#39;", "&amp;amp; &amp;amp;amp; &amp;amp;amp;amp;", "&amp;lt;i&amp;gt;", "&EACUTE;T&Eacute; &eacute &notit; &notin;",
    "&copy 2024 &reg&trade;", "&#x27;&#X41;&#65&#65z &#128512; &#x1F3AC;", "&#0; &#x80; &#x81; &#150; &#xD800; &#x110000; &#99999999999;",
    "&#1;&#x7f;|&#xb;|&#13;|&#12;|", "< &#1;&#x7f;&#xfdd0;&#xffff;|&#xb;|&#13;|&#12;|", "& && &; &# &#; &#x; &#xg; &unknown; &unknown R&D AT&T;", "&ngE; &bne; &nvlt; &fjlig;",
    "&amp;#39;&amp;quot;&#38;lt;&#38;#38;lt;",
    # what ftfy takes for HTML keeps its references there
    "<b>&amp;amp;lt;</b> &EACUTE;", "&amp;amp;lt;\nthen <b>&amp;amp;lt;</b>\nand &amp;amp;lt; &| &&|",
    # mojibake
    "â€œquietâ€\x9d, itâ€™s", "cafÃ© Ã la mer, naÃ¯ve", "ä¸€ä½\x8dè€\x81äºº", "ÐŸÑ€Ð¸Ð²ÐµÑ‚, Ð¼Ð¸Ñ€!", "ðŸŽ¬ â˜€ï¸\x8f", "Â© Â® 5Â°", "schÃƒÂ¶n",
    "Ã¢â‚¬Å“twiceÃ¢â‚¬\x9d", "voilÃ  le travail", "5€ and â‚¬5",
    # control characters and terminal escapes
    "\x1b[36;44mblue\x1b[0m and \x1b[1;mbold", "\x0033[0m a\x00b\x07c\x7fd\x9de", "\x1b[ \x1b[12", "\u206a\ufff9x\U000e0001y",
    # scripts
    "月光下的城市街道，一个小女孩抱着玩具熊，镜头缓缓推进。", "日本語のテキスト、カタカナ", "한국어 장면", "Привет, мир!", "مشهد هادئ", "दृश्य", "👩‍🚀🏽 🇩🇪 ☀️",
    # left alone
    "", " ", "Rain on a neon street, medium shot (4K), f/1.8 | 35mm; 50% #1 @home ~ ^ _ ` { } [ ] \\",
]


def clean(text):
    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return re.sub(r"\s+", " ", text).strip()


path = Path(__file__).parent.parent / "fixtures" / "prompts.json"
path.write_text("[\n" + ",\n".join(json.dumps([p, clean(p)]) for p in PROMPTS) + "\n]\n")
