#include <algorithm>
#include <cstring>

#include "pickle.hpp"
#include "text.hpp"

namespace weft::hugging_face {
namespace {

// Writes pickles of protocol 2 without a memo: a value that occurs twice is written twice.
class Pickler {
 public:
  void opcode(uint8_t code) { out_ += static_cast<char>(code); }
  void opcodes(std::string_view codes) { out_ += codes; }
  void global(std::string_view module, std::string_view name) {
    out_ += concat("c", module, "\n", name, "\n");
  }
  void text(std::string_view value) {
    opcode('X');
    number(static_cast<uint32_t>(value.size()));
    out_ += value;
  }
  void integer(int64_t value) {
    if (value >= 0 && value <= INT32_MAX) {
      opcode('J');
      number(static_cast<int32_t>(value));
    } else {
      opcodes("\x8a\x08");  // LONG1 of 8 bytes
      number(value);
    }
  }
  void integers(const std::vector<int64_t>& values) {
    opcode('(');
    for (int64_t value : values) integer(value);
    opcode('t');
  }
  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    opcodes(")R");
  }
  std::string take() { return std::move(out_); }

 private:
  template <typename Number>
  void number(Number value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string out_;
};

void write_tensor(Pickler& pickler, const TensorEntry& entry, std::size_t storage) {
  const std::vector<int64_t> strides = contiguous_strides(entry.shape, 1);
  pickler.global("torch._utils", "_rebuild_tensor_v2");
  pickler.opcodes("((");
  pickler.text("storage");
  pickler.global("torch", entry.type->storage);
  pickler.text(std::to_string(storage));
  pickler.text("cpu");
  pickler.integer(static_cast<int64_t>(size_bytes(entry) / entry.type->size_bytes));
  pickler.opcodes("tQ");
  pickler.integer(0);
  pickler.integers(entry.shape);
  pickler.integers(strides);
  pickler.opcode(0x89);  // requires_grad = False
  pickler.empty_ordered_dict();
  pickler.opcodes("tR");
}

}  // namespace

std::string write_state_dict(const std::vector<TensorEntry>& entries) {
  Pickler pickler;
  pickler.opcodes("\x80\x02");
  pickler.empty_ordered_dict();
  pickler.opcode('(');
  for (std::size_t i = 0; i < entries.size(); ++i) {
    pickler.text(entries[i].name);
    write_tensor(pickler, entries[i], i);
  }
  pickler.opcodes("u.");
  return pickler.take();
}

}  // namespace weft::hugging_face
