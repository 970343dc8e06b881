// An unpickler that runs no code: an opcode or a global that a state dict does not need is an error.
// unpickler.cpp has the stack machine, state_dict.cpp the objects of torch.
#pragma once

#include <cstring>
#include <deque>
#include <unordered_map>

#include "pickle_values.hpp"
#include "text.hpp"

namespace weft::hugging_face {

// A state dict of 200 000 tensors takes about 5 million values.
constexpr std::size_t kMostValues = 8'000'000;
// What the values may take: pickles of torch.save take 20 to 40 bytes for each of theirs.
constexpr std::size_t kMemoryPerByte = 128, kLeastMemory = 1 << 20, kMostMemory = 1 << 30;

class Unpickler {
 public:
  Unpickler(Bytes pickle, const std::string& path) : bytes_(pickle), path_(path) {}

  // Runs the pickle and returns the value on top of the stack at the end.
  const Value* run();

 private:
  template <typename... Parts>
  [[noreturn]] void damaged(const Parts&... parts) const {
    fail(WEFT_DATA_LOSS, path_, ": the pickle is not that of a state dict: at byte ", position_, ": ",
         parts...);
  }

  Bytes take(uint64_t size);
  template <typename Number>
  Number number();
  std::string text(uint64_t size) { return std::string(as_text(take(size))); }
  std::string line();
  int64_t long_integer();

  void charge(std::size_t bytes);
  void push(Value* value);
  template <typename Content>
  void push_new(Content content);
  Value* pop();
  std::vector<Value*> pop_to_mark();
  template <typename Content>
  Content* container_below(std::size_t depth, std::string_view opcode);

  bool step_scalar(uint8_t opcode);
  bool step_container(uint8_t opcode);
  bool step_memo(uint8_t opcode);
  void step_torch(uint8_t opcode);

  void push_tuple(std::size_t size);
  void set_items(Dict& dict, const std::vector<Value*>& items);
  void memorise(uint64_t index);
  void recall(uint64_t index);
  void push_global(std::string module, std::string name);
  void reduce();
  void push_storage();
  Value* rebuild_tensor(const std::vector<Value*>& arguments);
  int64_t integer_argument(const Value* value, const char* what) const;
  std::vector<int64_t> integers_argument(const Value* value, const char* what) const;

  Bytes bytes_;
  const std::string& path_;
  uint64_t position_ = 0;
  std::size_t memory_ = 0;  // of values, about
  std::deque<Value> arena_;
  std::vector<Value*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<uint64_t, Value*> memo_;
};

template <typename Number>
Number Unpickler::number() {
  Number value = 0;
  std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  return value;
}

template <typename Content>
void Unpickler::push_new(Content content) {
  if (arena_.size() >= kMostValues) damaged("more than ", kMostValues, " values");
  charge(sizeof(Value) + memory_of(content));
  arena_.emplace_back().content = std::move(content);
  push(&arena_.back());
}

template <typename Content>
Content* Unpickler::container_below(std::size_t depth, std::string_view opcode) {
  const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < bottom + depth + 1) damaged("the stack is empty");
  Value* value = stack_[stack_.size() - 1 - depth];
  if (auto* content = value->get_if<Content>()) return content;
  damaged(opcode, " on ", value->kind());
}

}  // namespace weft::hugging_face
