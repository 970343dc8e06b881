#!/usr/bin/env python3
"""Writes rendered.json: what transformers renders of chat templates and of pieces of Jinja, and where it refuses.

    generate.py            writes rendered.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs

The pieces are those of snippets.txt, between lines of ====. strftime_now is taken away, as Weft has none.
"""

import sys
from pathlib import Path

import transformers
from transformers.utils import chat_template_utils

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import json_oracle

TOKENS = dict(bos_token="<s>", eos_token="</s>")
VALUES = dict(
    x=3, y=2.5, s="Hello World", u="a\u00f1b\U0001F600c", l=[3, 1, 2], n=None, t=True, e=[], words=["b", "A", "c"],
    d={"a": 1, "b": [1, {"c": "q\"'"}], "items": 5}, ws=" \t pad \n", nl="a\nb\r\nc\n",
    objs=[{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}])
TOOLS = [{"type": "function", "function": {"name": "get", "description": "d \"q\"", "parameters": {"z": 1, "a": [True, None]}}}]


def says(role, content, **more):
    return dict(role=role, content=content, **more)


CONVERSATIONS = [
    [says("user", "Hi")],
    [says("user", " Hi "), says("assistant", " Yes. ")],
    [says("system", "Be brief."), says("user", "a"), says("assistant", "b"), says("user", "c"), says("assistant", "d")],
    [says("user", "q"), says("assistant", "<think>\nx\n</think>\n\na"), says("user", "r"), says("assistant", "<think>\ny\n</think>\n\nb\n")],
    [says("user", "\u591a\u8a00\u8a9e \U0001F600"), says("assistant", "\u00e9 \u00fc\n\n"), says("user", "x"), says("assistant", "y")],
    [says("user", "a"), says("assistant", "b", reasoning_content="because"), says("user", "c"), says("assistant", "d", reasoning_content="thus")],
    [says("user", "how warm?"), says("assistant", "", tool_calls=[{"function": {"name": "get", "arguments": {"city": "K\u00f6ln", "n": 3}}}]),
     says("tool", "{\"t\": 3}"), says("assistant", "3 degrees")],
    [says("assistant", "first")],
    [says("user", "a"), says("user", "b")],
]


def rendered(template, values):
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        compiled.environment.globals.pop("strftime_now", None)
        return {"text": compiled.render(**values)}
    except Exception as error:
        return {"refused": type(error).__name__}


def marked(template, messages):
    """The texts that {% generation %} blocks wrote."""
    texts, spans = chat_template_utils.render_jinja_template(
        [messages], chat_template=template, return_assistant_tokens_mask=True, **TOKENS)
    return [texts[0][begin:end] for begin, end in spans[0]]


def make():
    templates = {path.stem: path.read_text() for path in sorted(HERE.glob("*.jinja"))}
    chats = []
    for name, template in templates.items():
        for messages in CONVERSATIONS:
            for tools in (None, TOOLS):
                for prompt in (False, True):
                    values = dict(TOKENS, messages=messages, tools=tools, documents=None, add_generation_prompt=prompt)
                    chats.append(dict(template=name, messages=messages, tools=tools, prompt=prompt, **rendered(template, values)))
    return {
        "transformers": transformers.__version__, "values": VALUES, "chats": chats,
        "generated": [dict(messages=messages, texts=marked(templates["blocks"], messages)) for messages in CONVERSATIONS],
        "snippets": [dict(template=snippet, **rendered(snippet, VALUES))
                     for snippet in (HERE / "snippets.txt").read_text()[:-1].split("\n====\n")],
    }


if __name__ == "__main__":
    sys.exit(json_oracle.main(HERE / "rendered.json", make, 0, "Chat templates of transformers"))
