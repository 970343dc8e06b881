#include "unpickler.hpp"

#include <algorithm>
#include <bit>

namespace weft::hugging_face {

Bytes Unpickler::take(uint64_t size) {
  if (size > bytes_.size() - position_)
    damaged(size, " bytes are wanted, ", bytes_.size() - position_, " are left");
  const Bytes taken = bytes_.subspan(position_, size);
  position_ += size;
  return taken;
}

std::string Unpickler::line() {
  const std::string_view rest = as_text(bytes_.subspan(position_));
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) damaged("a line without end");
  position_ += end + 1;
  return std::string(rest.substr(0, end));
}

int64_t Unpickler::long_integer() {
  const auto size = number<uint8_t>();
  if (size > 8) damaged("an integer of ", size, " bytes");
  const Bytes digits = take(size);
  uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(digits[i]) << (8 * i);
  if (size > 0 && size < 8 && (digits[size - 1] & std::byte{0x80}) != std::byte{0})
    value |= ~uint64_t{0} << (8 * size);
  return static_cast<int64_t>(value);
}

void Unpickler::charge(std::size_t bytes) {
  memory_ += bytes;
  const std::size_t limit = std::min(kLeastMemory + kMemoryPerByte * bytes_.size(), kMostMemory);
  if (memory_ > limit) damaged("its ", bytes_.size(), " bytes make values of more than ", limit, " bytes");
}

void Unpickler::push(Value* value) {
  if (stack_.size() >= kMostValues) damaged("more than ", kMostValues, " values on the stack");
  stack_.push_back(value);
}

Value* Unpickler::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("the stack is empty");
  Value* value = stack_.back();
  stack_.pop_back();
  return value;
}

std::vector<Value*> Unpickler::pop_to_mark() {
  if (marks_.empty()) damaged("no mark on the stack");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<Value*> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

const Value* Unpickler::run() {
  if (bytes_.size() > kLargestHeader) {
    damaged("it has ", bytes_.size(), " bytes, more than the ", kLargestHeader, " that are read");
  }
  for (;;) {
    const auto opcode = number<uint8_t>();
    if (opcode == '.') break;  // STOP
    if (!step_scalar(opcode) && !step_container(opcode) && !step_memo(opcode)) step_torch(opcode);
  }
  if (!marks_.empty() || stack_.size() != 1)
    damaged("it ends with ", stack_.size(), " values instead of one");
  return stack_.back();
}

bool Unpickler::step_scalar(uint8_t opcode) {
  switch (opcode) {
    case 0x80: {  // PROTO
      const auto protocol = number<uint8_t>();
      if (protocol < 2 || protocol > 5) damaged("protocol ", protocol, ", must be 2 to 5");
      return true;
    }
    case 0x95:  // FRAME
      number<uint64_t>();
      return true;
    case 'N':
      push_new(None{});
      return true;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      push_new(opcode == 0x88);
      return true;
    case 'J':  // BININT
      push_new(int64_t{number<int32_t>()});
      return true;
    case 'K':  // BININT1
      push_new(int64_t{number<uint8_t>()});
      return true;
    case 'M':  // BININT2
      push_new(int64_t{number<uint16_t>()});
      return true;
    case 0x8a:  // LONG1
      push_new(long_integer());
      return true;
    case 'G': {  // BINFLOAT, big-endian
      push_new(std::bit_cast<double>(__builtin_bswap64(number<uint64_t>())));
      return true;
    }
    case 'X':  // BINUNICODE
      push_new(text(number<uint32_t>()));
      return true;
    case 0x8c:  // SHORT_BINUNICODE
      push_new(text(number<uint8_t>()));
      return true;
    case 0x8d:  // BINUNICODE8
      push_new(text(number<uint64_t>()));
      return true;
    default:
      return false;
  }
}

bool Unpickler::step_container(uint8_t opcode) {
  switch (opcode) {
    case '(':  // MARK
      if (marks_.size() >= kMostValues) damaged("more than ", kMostValues, " marks");
      marks_.push_back(stack_.size());
      return true;
    case ')':  // EMPTY_TUPLE
      push_new(Tuple{});
      return true;
    case 0x85:  // TUPLE1
    case 0x86:
    case 0x87:
      push_tuple(opcode - 0x84);
      return true;
    case 't':  // TUPLE
      push_new(Tuple{pop_to_mark()});
      return true;
    case ']':  // EMPTY_LIST
      push_new(List{});
      return true;
    case '}':  // EMPTY_DICT
      push_new(Dict{});
      return true;
    case 'a': {  // APPEND
      Value* item = pop();
      charge(sizeof(item));
      container_below<List>(0, "APPEND")->items.push_back(item);
      return true;
    }
    case 'e': {  // APPENDS
      const std::vector<Value*> items = pop_to_mark();
      charge(items.size() * sizeof(Value*));
      auto& list = container_below<List>(0, "APPENDS")->items;
      list.insert(list.end(), items.begin(), items.end());
      return true;
    }
    case 's': {  // SETITEM
      Value* value = pop();
      Value* key = pop();
      set_items(*container_below<Dict>(0, "SETITEM"), {key, value});
      return true;
    }
    case 'u': {  // SETITEMS
      const std::vector<Value*> items = pop_to_mark();
      set_items(*container_below<Dict>(0, "SETITEMS"), items);
      return true;
    }
    default:
      return false;
  }
}

bool Unpickler::step_memo(uint8_t opcode) {
  switch (opcode) {
    case 'q':  // BINPUT
      memorise(number<uint8_t>());
      return true;
    case 'r':  // LONG_BINPUT
      memorise(number<uint32_t>());
      return true;
    case 0x94:  // MEMOIZE
      memorise(memo_.size());
      return true;
    case 'h':  // BINGET
      recall(number<uint8_t>());
      return true;
    case 'j':  // LONG_BINGET
      recall(number<uint32_t>());
      return true;
    default:
      return false;
  }
}

void Unpickler::step_torch(uint8_t opcode) {
  switch (opcode) {
    case 'c': {  // GLOBAL
      std::string module = line();
      push_global(std::move(module), line());
      return;
    }
    case 0x93: {  // STACK_GLOBAL
      const auto* name = pop()->get_if<std::string>();
      const auto* module = pop()->get_if<std::string>();
      if (name == nullptr || module == nullptr) damaged("a global whose name is no text");
      push_global(*module, *name);
      return;
    }
    case 'R':
      reduce();
      return;
    case 'Q':
      push_storage();
      return;
    case 'b':  // BUILD: attributes of an OrderedDict, such as _metadata with the versions of modules
      pop();
      container_below<Dict>(0, "BUILD");
      return;
    default:
      damaged("opcode ", opcode, " is not one that tensors need");
  }
}

void Unpickler::push_tuple(std::size_t size) {
  std::vector<Value*> items(size);
  for (std::size_t i = size; i-- > 0;) items[i] = pop();
  push_new(Tuple{std::move(items)});
}

void Unpickler::set_items(Dict& dict, const std::vector<Value*>& items) {
  if (items.size() % 2 != 0) damaged("a key without value");
  charge(items.size() * sizeof(Value*));
  for (std::size_t i = 0; i < items.size(); i += 2) dict.items.emplace_back(items[i], items[i + 1]);
}

void Unpickler::memorise(uint64_t index) {
  Value* value = pop();
  push(value);
  charge(sizeof(*memo_.begin()) + 2 * sizeof(void*));
  memo_[index] = value;
}

void Unpickler::recall(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) damaged("value ", index, " was never remembered");
  push(found->second);
}

}  // namespace weft::hugging_face
