"""Writes random templates and what transformers' Jinja renders of them, a line of JSON each.

  random_templates.py FILE COUNT SEED
"""
import json
import random
import sys

from transformers.utils import chat_template_utils

VALUES = dict(x=3, y=2.5, z=-7, s="Hello World", u="a\u00f1b\U0001F600c", l=[3, 1, 2], n=None, t=True, e=[], words=["b", "a", "c"],
              d={"a": 1, "b": [1, 2]}, objs=[{"k": "x", "v": 1}, {"k": "y", "v": 2}])
# What templates set has names of its own: Jinja takes a name that is set later in the same scope for undefined before.
SET = ["q", "w"]
NAMES = list(VALUES) + SET + ["missing"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def expression(self, depth):
        r = self.random
        if depth == 0 or r.random() < 0.2:
            return self.one(self.one(*NAMES), str(r.randrange(-4, 5)), self.one("'ab c'", '"x\\ny"', "''", "1.5", "true", "none", "[]", "'l'"))
        e = lambda: self.expression(depth - 1)
        kind = r.randrange(14)
        if kind == 0:
            return f"({e()} {self.one('+', '-', '*', '~', '%', '//')} {e()})"
        if kind == 1:
            return f"({e()} {self.one('==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'and', 'or')} {e()})"
        if kind == 2:
            return f"(not {e()})"
        if kind == 3:
            return f"({e()} if {e()} else {e()})"
        if kind == 4:
            return f"{e()}|{self.one('length', 'string', 'upper', 'trim', 'first', 'last', 'list', 'tojson', 'reverse|list', 'join', 'title', 'capitalize', 'int', 'float', 'abs', 'unique|list', 'sort', 'max', 'min', 'sum')}"
        if kind == 5:
            return f"{e()}|default({e()}{self.one('', ', true')})"
        if kind == 6:
            return f"{e()} is {self.one('', 'not ')}{self.one('defined', 'none', 'string', 'number', 'mapping', 'iterable', 'sequence', 'true', 'odd', 'boolean', 'integer', 'float')}"
        if kind == 7:
            return f"{self.one('s', 'u', 'l', 'words')}[{self.one('', '0', '1', '-2', '5')}:{self.one('', '2', '-1', '9')}{self.one('', ':-1', ':2')}]"
        if kind == 8:
            return f"{self.one('s', 'l', 'd', 'objs', 'missing', 'u')}[{e()}]"
        if kind == 9:
            return f"{self.one('d', 'objs[0]', 's', 'n', 'missing', 'x')}.{self.one('a', 'k', 'b', 'nothing')}"
        if kind == 10:
            return f"{self.one('s', 'u', e())}.{self.one('strip()', 'split()', 'upper()', 'title()', 'replace(' + e() + ', ' + e() + ')', 'startswith(' + e() + ')', 'split(' + e() + ')', 'lstrip(' + e() + ')', 'rsplit(' + e() + ', 1)', 'find(' + e() + ')', 'splitlines()')}"
        if kind == 11:
            return f"[{e()}, {e()}]"
        if kind == 12:
            return self.one("objs|map(attribute='v')|list", "objs|selectattr('k', 'eq', 'x')|list", "l|select('odd')|list", "words|map('upper')|join(',')",
                            "d.items()|list", "d.get('a')", f"d.get({e()}, 9)", f"range({r.randrange(-2, 5)})|list", "objs|rejectattr('v')|list", "d|dictsort")
        return f"(-{e()})"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randrange(1, 4)))

    def block(self, inside):
        return self.one("{%", "{%-", "{%+") + " " + inside + " " + self.one("%}", "-%}", "%}", "+%}")

    def statement(self, depth):
        space = self.one("", " ", "\n", "  \n", "\n  ", "\t")
        kind = self.random.randrange(8) if depth > 0 else self.random.randrange(3)
        if kind == 0:
            return self.one("text", " ", "\n", "a\n  ", "  ") + space
        if kind <= 2:
            return space + self.one("{{", "{{-") + " " + self.expression(2) + " " + self.one("}}", "-}}")
        if kind == 3:
            return space + self.block("if " + self.expression(2)) + self.body(depth - 1) + self.one("", self.block("else") + self.body(depth - 1)) + self.block("endif")
        if kind == 4:
            name = self.one("i", "x")
            jump = self.one("", "", self.block("if loop.index == 2") + self.block(self.one("break", "continue")) + self.block("endif"))
            return (space + self.block(f"for {name} in " + self.one("l", "words", "objs", "d", "u", "range(3)", self.expression(1)) + self.one("", "", " if " + self.expression(1)))
                    + jump + "{{ loop." + self.one("index", "first", "last", "length", "revindex0", "previtem") + " }}" + self.body(depth - 1)
                    + self.one("", self.block("else") + "none") + self.block("endfor"))
        if kind == 5:
            return space + self.block("set " + self.one(*SET) + " = " + self.expression(2))
        if kind == 6:
            return space + self.block("set q") + self.body(depth - 1) + self.block("endset") + "{{ q }}"
        return space + self.one("{# comment #}", "{#- comment -#}", "{# two\nlines #}\n", self.block("raw") + "{{ x" + self.block("endraw").replace("{%+", "{%"))


def main():
    file, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    maker = Maker(seed)
    with open(file, "w") as out:
        out.write(json.dumps(VALUES) + "\n")
        for _ in range(count):
            template = maker.body(2) + maker.one("", "\n", "\n\n")
            try:
                line = dict(template=template, text=chat_template_utils._compile_jinja_template(template).render(**VALUES))
            except Exception as error:
                line = dict(template=template, refused=f"{type(error).__name__}: {error}")
            out.write(json.dumps(line) + "\n")


main()
