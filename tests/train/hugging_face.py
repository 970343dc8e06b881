"""Transformers' side of hugging_face_test.cpp.

    hugging_face.py CLASSES ORACLES MADE    checks each CLASSES/<class> with roundtrip.py in ORACLES on CLASSES/<class>.safetensors;
                                            MADE/<family>: {sharded,torch}, one random language model; {inputs,expected}.safetensors
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

SCALING = dict(rope_type="llama3", rope_theta=300.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=64)
DECODER = dict(vocab_size=131, max_position_embeddings=40, hidden_size=60, intermediate_size=90, num_hidden_layers=3,
               num_attention_heads=6, num_key_value_heads=2, bos_token_id=0, eos_token_id=0)
# One position shorter than the sequences: shorter ones leave padding without any key, which is not defined.
WINDOW = dict(use_sliding_window=True, sliding_window=16, max_window_layers=1)
CONFIGS = dict(
    bloom=transformers.BloomConfig(vocab_size=131, hidden_size=60, n_layer=3, n_head=6),
    gpt2=transformers.GPT2Config(vocab_size=131, n_positions=40, n_embd=60, n_layer=3, n_head=4, resid_pdrop=0.1,
                                 bos_token_id=0, eos_token_id=0),
    llama=transformers.LlamaConfig(**DECODER, attention_bias=True, rope_parameters=SCALING),
    mistral=transformers.MistralConfig(**DECODER, sliding_window=16),
    opt=transformers.OPTConfig(vocab_size=131, max_position_embeddings=40, hidden_size=60, word_embed_proj_dim=28, ffn_dim=90,
                               num_hidden_layers=3, num_attention_heads=4),
    qwen2=transformers.Qwen2Config(**DECODER, **WINDOW, tie_word_embeddings=True),
    qwen3=transformers.Qwen3Config(**DECODER, **WINDOW, head_dim=16),
    t5=transformers.T5Config(vocab_size=131, d_model=60, d_kv=10, d_ff=90, num_layers=3, num_decoder_layers=2, num_heads=4,
                             decoder_start_token_id=0, pad_token_id=0, eos_token_id=1),
)


def make(folder, config):
    torch.manual_seed(3)
    folder.mkdir()
    auto = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    model = auto.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder / "sharded", max_shard_size="100KB")
    config.save_pretrained(folder / "torch")
    torch.save(model.state_dict(), folder / "torch" / "pytorch_model.bin")
    ids = torch.randint(0, 131, (5, 17))
    mask = (torch.arange(17) < torch.tensor([[17], [9], [2], [17], [12]])).long()
    labels = torch.where(mask.bool(), ids, -100)
    inputs = dict(input_ids=ids, attention_mask=mask, labels=labels)
    with torch.no_grad():
        outputs = model(**inputs)
    save_file(inputs, folder / "inputs.safetensors")
    save_file(dict(logits=outputs.logits, loss=outputs.loss), folder / "expected.safetensors")
    assert len(list((folder / "sharded").glob("*.safetensors"))) > 1


def open_all(folder, oracles):
    sys.path.insert(0, oracles)
    import roundtrip
    status = 0
    for oracle in sorted(folder.glob("*.safetensors")):
        sys.argv = ["roundtrip.py", str(folder / oracle.stem), oracle.stem, str(oracle)]
        status |= roundtrip.main()
    return status


if __name__ == "__main__":
    for name, config in CONFIGS.items():
        make(Path(sys.argv[3]) / name, config)
    sys.exit(open_all(Path(sys.argv[1]), sys.argv[2]))
