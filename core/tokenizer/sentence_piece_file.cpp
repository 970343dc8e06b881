#include "tokenizer/sentence_piece_file.hpp"

#include <cstring>
#include <string_view>

#include "base/text.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// The fields of a message of protocol buffers, one after the other.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& path) : rest_(bytes), path_(path) {}

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    bytes_ = {};
    switch (key & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        damaged();
    }
    return true;
  }
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }          // of a number
  bool flag() const { return value_ != 0; }          // of a boolean
  std::string_view bytes() const { return bytes_; }  // of a text or a message
  float real() const {
    float value = 0;
    if (bytes_.size() != sizeof value) damaged();
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }
  std::string text() const {
    if (!is_utf8(bytes_)) damaged();
    return std::string(bytes_);
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged();
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) damaged();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] void damaged() const {
    fail(WEFT_DATA_LOSS, "{}: is no model of SentencePiece, or it is damaged", path_);
  }

  std::string_view rest_, bytes_;
  const std::string& path_;
  uint64_t number_ = 0, value_ = 0;
};

}  // namespace

SentencePieceFile read_sentence_piece_file(const std::string& bytes, const std::string& path) {
  SentencePieceFile file;
  for (Fields all(bytes, path); all.next();) {
    if (all.number() == 1) {
      SentencePieceFile::Piece& piece = file.pieces.emplace_back();
      for (Fields fields(all.bytes(), path); fields.next();) {
        if (fields.number() == 1) piece.text = fields.text();
        if (fields.number() == 2) piece.score = fields.real();
        if (fields.number() == 3) piece.type = fields.value();
      }
    } else if (all.number() == 2) {
      for (Fields fields(all.bytes(), path); fields.next();) {
        if (fields.number() == 3) file.kind = fields.value();
        if (fields.number() == 24) file.space_behind = fields.flag();
        if (fields.number() == 35) file.byte_fallback = fields.flag();
      }
    } else if (all.number() == 3) {
      for (Fields fields(all.bytes(), path); fields.next();) {
        if (fields.number() == 2) file.charsmap = fields.bytes();
        if (fields.number() == 3) file.adds_space = fields.flag();
        if (fields.number() == 4) file.removes_spaces = fields.flag();
        if (fields.number() == 5) file.writes_spaces = fields.flag();
      }
    }
  }
  if (file.pieces.empty()) fail(WEFT_DATA_LOSS, "{}: is no model of SentencePiece: it has no pieces", path);
  return file;
}

}  // namespace weft::tokenizer
