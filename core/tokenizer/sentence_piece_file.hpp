// What tokenizer.model says, the file of SentencePiece: a message of protocol buffers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::tokenizer {

struct SentencePieceFile {
  struct Piece {
    enum Type : uint64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
    std::string text;
    float score = 0;
    uint64_t type = kNormal;
  };
  enum Kind : uint64_t { kUnigram = 1, kBytePairs };
  std::vector<Piece> pieces;
  uint64_t kind = kUnigram;
  bool byte_fallback = false, space_behind = false;
  std::string charsmap;
  bool adds_space = true, removes_spaces = true, writes_spaces = true;
};

// Throws DATA_LOSS, naming `path`, for bytes that are no such file.
SentencePieceFile read_sentence_piece_file(const std::string& bytes, const std::string& path);

}  // namespace weft::tokenizer
