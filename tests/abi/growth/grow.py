#!/usr/bin/env python3
"""A copy of the C headers as another minor has them, for what is built before or after this host.

  grow.py ROOT OUT longer    every struct with a size has one member more at its end
  grow.py ROOT OUT shorter   structs whose last members a caller need not know lack them
"""
import os
import re
import shutil
import sys

# What the ends are of structs that an application fills or reads; all that stands before is used by program.c.
OPTIONAL_ENDS = {
    "weft_loaded": ["tier", "abi_minor"],
    "weft_step_result": ["stop", "updated", "loss_scale"],
    "weft_trainer_arguments": ["num_hooks", "evaluation", "num_evaluation"],
    "weft_boost_arguments": ["criterion"],
    "weft_pipeline_arguments": ["backward", "reserved"],
    "weft_sequence": ["stopped", "reserved"],
    "weft_chosen_token": ["id"],
    "weft_generation_arguments": ["sequence"],
}


def structs(root):
    with open(os.path.join(root, "sdk/abi/structs.h"), encoding="utf-8") as file:
        return {name: kind for kind, name in re.findall(r"^(TABLE|SIZED)\((\w+),", file.read(), re.M)}


def body_of(text, name):
    """Where the struct ends: the place of its closing brace, and where its body begins."""
    begin = re.search(rf"^(?:typedef )?struct {name} \{{.*\n", text, re.M)
    return (begin.end(), text.index("\n}", begin.end()) + 1) if begin else None


def without_members(body, members):
    lines = body.splitlines(keepends=True)
    for member in reversed(members):
        last = max(i for i, line in enumerate(lines) if re.match(rf"  \w[^/]*\b{member}\b", line))
        if any(re.match(r"  \w", line) for line in lines[last + 1:]):
            sys.exit(f"the last member of the struct is not {member}:\n{body}")
        del lines[last:]
    return "".join(lines)


def main():
    root, out, way = sys.argv[1:]
    shutil.copytree(os.path.join(root, "sdk/include/weft"), os.path.join(out, "weft"), dirs_exist_ok=True)
    headers = [os.path.join(out, "weft", name) for name in os.listdir(os.path.join(out, "weft")) if name.endswith(".h")]
    wanted = structs(root) if way == "longer" else OPTIONAL_ENDS
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = file.read()
        for name in list(wanted):
            place = body_of(text, name)
            if place is None:
                continue
            body = text[slice(*place)]
            if way == "longer":
                more = "  void (*added)(void);\n" if wanted[name] == "TABLE" else "  uint64_t added;\n"
                body += more
            else:
                body = without_members(body, wanted[name])
            text = text[: place[0]] + body + text[place[1]:]
            del wanted[name]
        with open(header, "w", encoding="utf-8") as file:
            file.write(text)
    if wanted:
        sys.exit(f"no header has {', '.join(wanted)}")


if __name__ == "__main__":
    main()
