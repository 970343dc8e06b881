"""Trains byte-level BPE with Hugging Face's tokenizers.

  train.py FOLDER SIZE FILE...    writes FOLDER/tokenizer.json with SIZE tokens
"""
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder, size, paths = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train(paths, trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False,
                                           special_tokens=["<|endoftext|>"],
                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tokenizer.save(f"{folder}/tokenizer.json")
