"""Makes tokenizers with chat templates, conversations, and the ids and labels that transformers makes of them.

  chats.py FOLDER    writes a folder with a tokenizer for each template, and FOLDER/expected.json: conversations with the ids of
                     apply_chat_template, or null where it refuses, and, for templates with a form for training, the labels of its
                     {% generation %} blocks
"""
import json
import os
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

MARKS = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]

CALLS = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls is defined %}{% for c in m.tool_calls %}"
         "{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}{% endif %}{% if m.content is defined %}{{ m.content }}"
         "{% endif %}<|im_end|>\n{% endfor %}")
REASONING = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
             "{% endif %}{% if m.thinking is defined %}({{ m.thinking }}){% endif %}{{ m.content }}<|im_end|>\n{% endfor %}")
MEMBERS = "{% for m in messages %}{% for key, value in m.items() %}{{ key }}={{ value | tojson }};{% endfor %}\n{% endfor %}{{ tools | tojson }}"
TOOLS = "TOOLS {{ tools | tojson }}\n" + CALLS
NAMED = {"default": CALLS, "tool_use": TOOLS, "rag": "RAG"}

# What stands in [ and ] is learned; [ and ] are the {% generation %} block of the form for training.
TURNS = {
    "marks": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}[{{ m.content }}<|im_end|>]{% else %}"
             "{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "trimmed": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}[{{ m.content | trim }}<|im_end|>]{% else %}"
               "{{ m.content | trim }}<|im_end|>{% endif %}\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "without_prompt": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}[{{ m.content }}</s>]{% else %}Q: "
                      "{{ m.content }}\n{% endif %}{% endfor %}",
    "asks": "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.role == 'assistant' %}[{% if m.content %}{{ ' ' ~ m.content }}"
            "{% endif %}<|im_end|>]{% else %}{{ ' ' ~ m.content }}<|im_end|>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}",
}


def says(role, content, **more):
    return dict(role=role, content=content, **more)


ASKED = says("user", "Hi")
CALL = [{"function": {"name": "get", "arguments": {"city": None, "n": [1, None]}}}]
TOOL = [{"type": "function", "function": {"name": "get", "description": None, "parameters": {"a": [True, None]}}}]
CONVERSATIONS = [
    [ASKED, says("assistant", "Yes")],
    [ASKED, says("assistant", None, tool_calls=CALL), says("tool", "3"), says("assistant", "Three", tool_calls=None)],
    [says("user", "Hi", name=None), says("assistant", "Yes", tool_calls=None, reasoning_content=None, audio=None)],
    [ASKED, says("assistant", "b", reasoning_content="because")],
    [ASKED, says("assistant", "b", thinking="thus")],
    [ASKED, says("assistant", "b", reasoning="so")],
    [ASKED, says("assistant", "b", reasoning="so", thinking="thus", reasoning_content=None)],
    [ASKED, says("assistant", "b", reasoning="so", reasoning_content="because")],
    [ASKED, says("assistant", "b", reasoning=None, thinking=None)],
    [ASKED, says("assistant", "b", reasoning="", thinking="thus")],
    [ASKED, says("assistant", "b", thinking="")],
]
EMPTY = [
    [ASKED, says("assistant", "")],
    [ASKED, says("assistant", ""), ASKED, says("assistant", "Yes")],
    [ASKED, says("assistant", "Yes"), ASKED, says("assistant", "")],
    [ASKED, says("assistant", ""), says("user", ""), says("assistant", ""), ASKED, says("assistant", "No"), ASKED, says("assistant", "")],
    [says("assistant", ""), ASKED, says("assistant", "Yes")],
]


def tokenizer_with(template):
    alphabet = MARKS + sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                   additional_special_tokens=MARKS[3:])
    made.chat_template = template
    return made


def rendered(tokenizer, messages, tools, **more):
    try:
        return tokenizer.apply_chat_template(messages, tools=tools, return_dict=True, **more)
    except Exception:
        return None


def main():
    into, cases = sys.argv[1], []

    def add(name, tokenizer, line, labels=None):
        made = rendered(tokenizer, line["messages"], line.get("tools"))
        cases.append(dict(folder=name, line=line, ids=made["input_ids"] if made else None, labels=labels))

    templates = {"calls": CALLS, "reasoning": REASONING, "members": MEMBERS, "named_list": NAMED, "named_files": NAMED,
                 "only_list": {"tool_use": TOOLS}, "only_files": {"tool_use": TOOLS}}
    for name, template in templates.items():
        tokenizer = tokenizer_with(template)
        tokenizer.save_pretrained(os.path.join(into, name), save_jinja_files=name.endswith("_files"))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(os.path.join(into, name))
        for messages in CONVERSATIONS:
            for more in ({}, {"tools": None}, {"tools": TOOL}, {"tools": []}):
                add(name, tokenizer, {"messages": messages, **more})
    for name, both in TURNS.items():
        training = both.replace("[", "{% generation %}").replace("]", "{% endgeneration %}")
        tokenizer = tokenizer_with(both.replace("[", "").replace("]", ""))
        tokenizer.save_pretrained(os.path.join(into, name))
        for messages in EMPTY + CONVERSATIONS[:1]:
            made = rendered(tokenizer, messages, None, chat_template=training, return_assistant_tokens_mask=True)
            labels = [i if mask else -100 for i, mask in zip(made["input_ids"], made["assistant_masks"])]
            add(name, tokenizer, {"messages": messages}, labels)
    with open(os.path.join(into, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file)


main()
