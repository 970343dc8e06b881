#include "base/text.hpp"
#include "command/command.hpp"

namespace weft::command {

int run(std::string_view verb, const nlohmann::json& arguments) {
  if (verb == "train") return train(arguments);
  if (verb == "forward") return forward(arguments);
  if (verb == "evaluate") return evaluate(arguments);
  if (verb == "generate") return generate(arguments);
  if (verb == "convert") return convert(arguments);
  if (verb == "tokenizer encode") return encode_text(arguments);
  if (verb == "tokenizer decode") return decode_ids(arguments);
  if (verb == "tokenizer train") return train_tokenizer(arguments);
  if (verb == "plan") return plan(arguments);
  if (verb == "check") return check(arguments);
  fail(WEFT_NOT_FOUND, "the engine has no verb \"{}\"", verb);
}

}  // namespace weft::command
