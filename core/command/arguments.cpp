#include "command/arguments.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/options.hpp"
#include "base/setting_name.hpp"
#include "base/text.hpp"
#include "booster/option_checks.hpp"
#include "comm/agreement.hpp"
#include "comm/job.hpp"
#include "command/question_data.hpp"
#include "command/text_data.hpp"
#include "host/launch/rank_signals.hpp"
#include "opening/model_data.hpp"
#include "opening/model_files.hpp"
#include "opening/model_images.hpp"
#include "opening/model_state.hpp"
#include "plugins.hpp"
#include "weft/nn/sound_model.hpp"

namespace weft::command {

bool given(const json& arguments, const char* key) {
  return arguments.contains(key);
}
std::string text(const json& arguments, const char* key, const std::string& otherwise) {
  return given(arguments, key) ? arguments.at(key).get<std::string>() : otherwise;
}
int64_t integer(const json& arguments, const char* key, int64_t otherwise) {
  return given(arguments, key) ? arguments.at(key).get<int64_t>() : otherwise;
}
double real(const json& arguments, const char* key, double otherwise) {
  return given(arguments, key) ? arguments.at(key).get<double>() : otherwise;
}
bool flag(const json& arguments, const char* key) {
  return given(arguments, key) && arguments.at(key).get<bool>();
}

std::string flag_of(std::string key) {
  constexpr std::pair<std::string_view, const char*> kRepeated[] = {
      {"options", "-o"},
      {"optimizer_options", "--optimizer-option"},
      {"lr_scheduler_options", "--lr-scheduler-option"},
  };
  for (const auto& [name, flag] : kRepeated)
    if (key == name) return flag;
  return flag_name(std::move(key));
}

namespace {

// Adds --micro-batch-size to the options of a strategy, which `table` declares. Throws INVALID_ARGUMENT where
// it has no effect, or another option also divides the batch.
void set_micro_batch_size(int64_t size, const std::string& strategy, const OptionTable& table,
                          json& options) {
  const OptionSpec* spec = table.find("microbatch_size");
  if (spec == nullptr)
    fail(WEFT_INVALID_ARGUMENT,
         "--micro-batch-size is {}, but strategy {} has no pipeline stages (no option microbatch_size); use "
         "--accumulate, or a strategy with stages",
         size, strategy);
  check_value(*spec, size, "--micro-batch-size");
  for (const char* other : {"microbatch_size", "num_microbatches"})
    if (options.contains(other) && !options[other].is_null())
      fail(WEFT_INVALID_ARGUMENT,
           "--micro-batch-size {} and -o {}={} both divide the batch into micro-batches; give one of them",
           size, other, options[other].dump());
  const auto value_of = [&](const std::string& name) {
    return options.contains(name) ? options[name] : table.at(name, strategy).default_value.value_or(json());
  };
  if (!spec->needs.hold(value_of))
    fail(WEFT_INVALID_ARGUMENT,
         "--micro-batch-size is {}, but has no effect: it needs {}, and {}; give -o pp_size=P for P pipeline "
         "stages, or use --accumulate",
         size, spec->needs.text(), spec->needs.found(value_of));
  options[spec->name] = size;
}

// Reads `-o key=value` and --micro-batch-size by the options that the strategy's manifest declares. Returns
// them as JSON.
std::string strategy_options(std::string strategy, const json& arguments) {
  const std::vector<std::string> words = arguments.value("options", std::vector<std::string>());
  const bool has_size = given(arguments, "micro_batch_size");
  if (words.empty() && !has_size) return "{}";
  OptionTable table;
  std::string who = "no strategy (\"none\")";
  if (strategy != "none") {
    const weft_loaded loaded = load_plugin("strategy", strategy);
    strategy = view(loaded.id);
    who = fmt::format("strategy {}", strategy);
    const std::string source = fmt::format("plugin.json of {}", strategy);
    table = option_table_of_plugin(parse_json(view(loaded.manifest), source), source);
  }
  json options = parse_assignments(table, words, who);
  if (has_size) set_micro_batch_size(integer(arguments, "micro_batch_size", 0), strategy, table, options);
  return options.dump();
}

}  // namespace

std::chrono::milliseconds timeout(const json& arguments) {
  return given(arguments, "timeout") ? milliseconds_of("--timeout", real(arguments, "timeout", 0))
                                     : kDefaultTimeout;
}

World join_job(const char* verb, const json& arguments) {
  constexpr const char* kReadByEachRank[] = {"model", "data", "tokenizer", "inputs", "adapter", "booster"};
  json facts = {{"verb", verb}};
  for (const auto& [key, value] : arguments.items())
    if (std::find(std::begin(kReadByEachRank), std::end(kReadByEachRank), key) == std::end(kReadByEachRank))
      facts[flag_of(key)] = value;
  const comm::Job job = comm::job_from_environment();
  prefer_errors_to_signals(job.rank, job.size);
  World world = launch(timeout(arguments));
  require_agreement(world.communicator(), facts);
  return world;
}

BoosterOptions booster_options(const json& arguments, const std::string& without) {
  BoosterOptions options;
  if (given(arguments, "booster")) {
    for (const char* key : {"strategy", "options", "micro_batch_size"})
      if (given(arguments, key))
        fail(WEFT_INVALID_ARGUMENT,
             "--booster names the strategy and its options: leave {} out, or write it there", flag_of(key));
    options = BoosterOptions::load(text(arguments, "booster"));
  } else {
    options.strategy = text(arguments, "strategy", without);
    options.options = strategy_options(options.strategy, arguments);
  }
  const auto take = [&](const char* key, auto& field, auto read) {
    if (given(arguments, key)) field = read(arguments, key, field);
  };
  take("precision", options.precision, text);
  take("mixed_precision", options.mixed_precision, text);
  take("recompute", options.recompute, text);
  take("accumulate", options.accumulate, integer);
  take("max_grad_norm", options.max_grad_norm, real);
  take("check_agreement", options.check_agreement, integer);
  take("seed", options.seed, integer);
  take("device", options.device, text);
  options.deterministic |= flag(arguments, "deterministic");
  options.allow_tf32 |= flag(arguments, "allow_tf32");
  options.enable_cuda_graph |= flag(arguments, "enable_cuda_graph");
  check_numbers(options, flag_of);
  return options;
}

BoosterOptions booster_options_for_outputs(const json& arguments, const std::string& without) {
  BoosterOptions options = booster_options(arguments, without);
  json of_strategy = parse_json(options.options, "options of the strategy");
  if (!of_strategy.is_object()) return options;  // the Booster refuses it
  const auto splits = [&](const char* axis) { return of_strategy.value(axis, json(1)) != 1; };
  const char* const axis = splits("tp_size") ? "tp_size" : "sp_size";
  if (!splits(axis)) return options;
  if (of_strategy.value("parallel_output", json()) == true)
    fail(WEFT_INVALID_ARGUMENT,
         "the strategy's option parallel_output is true, but with {} {} that leaves each rank a part of the "
         "logits, and this command needs all of them: leave parallel_output out, or set it false",
         axis, of_strategy[axis].dump());
  of_strategy["parallel_output"] = false;
  options.options = of_strategy.dump();
  return options;
}

Model open_model(const json& arguments, const std::string& precision, const World& world,
                 checkpoint::Missing missing) {
  const std::string path = text(arguments, "model");
  Model model = Model::open(path, text(arguments, "architecture"), precision);
  if (given(arguments, "adapter")) model.adapt(text(arguments, "adapter"));
  model.shared().missing = flag(arguments, "allow_missing") ? checkpoint::Missing::kAnything : missing;
  if (!model.shared().weights.empty() || !std::filesystem::is_directory(path)) return model;
  if (model.shared().missing == checkpoint::Missing::kNothing)
    fail(WEFT_NOT_FOUND,
         "{} holds no weights of {}: give the folder of a trained model, or --allow-missing to begin with "
         "initial values",
         path, model.architecture());
  world.print_on_master(
      fmt::format("{} holds no weights: {} begins with initial values", path, model.architecture()));
  return model;
}

int64_t sequence_length(const json& arguments) {
  const int64_t length = integer(arguments, "sequence_length", 0);
  if (given(arguments, "sequence_length") && length <= 0)
    fail(WEFT_INVALID_ARGUMENT, "--sequence-length is {}, must be positive", length);
  return length;
}

namespace {

data::TokenType token_type(const json& arguments) {
  const std::string type = text(arguments, "token_type", "uint16");
  if (type != "uint16" && type != "uint32")
    fail(WEFT_INVALID_ARGUMENT, "--token-type is \"{}\", must be uint16 or uint32", type);
  return type == "uint16" ? data::TokenType::kUint16 : data::TokenType::kUint32;
}

// Returns the path under `key`; nothing if there are several.
std::string path_of_data(const json& arguments, const char* key) {
  const json& given = arguments.at(key);
  if (given.is_string()) return given.get<std::string>();
  return given.size() == 1 ? given.front().get<std::string>() : "";
}

// Returns --part, or `otherwise` if it is not given.
data::Part part_of(const json& arguments, double held_out, data::Part otherwise) {
  if (!given(arguments, "part")) return held_out == 0 ? data::Part::kAll : otherwise;
  const std::string part = text(arguments, "part");
  if (part == "all") return data::Part::kAll;
  if (part != "train" && part != "held-out")
    fail(WEFT_INVALID_ARGUMENT, "--part is \"{}\", must be train, held-out or all", printable(part, 60));
  if (held_out == 0)
    fail(WEFT_INVALID_ARGUMENT, "--part is {}, but no samples are held out; give --held-out FRACTION too",
         part);
  return part == "train" ? data::Part::kTraining : data::Part::kHeldOut;
}

// Returns the tokenizer of --tokenizer, or else of the folder of --model, which the model keeps for saves.
// Nothing if there is none.
std::optional<Tokenizer> tokenizer_of(const json& arguments, const Model& model) {
  const std::string folder = text(arguments, given(arguments, "tokenizer") ? "tokenizer" : "model");
  if (!given(arguments, "tokenizer") && !Tokenizer::is_in(folder)) return std::nullopt;
  model.shared().tokenizer = Tokenizer::open(folder);
  return model.shared().tokenizer;
}

// What is done with the files of a folder.
struct FilesUse {
  bool labels = true;  // whether transcripts must be there
  int64_t seed = 0;
  data::Part part = data::Part::kAll;  // without --part
};

// Returns the images or recordings of the folder under `key`.
std::shared_ptr<data::Dataset> open_files(const json& arguments, const char* key, const Model& model,
                                          const World& world, const FilesUse& use) {
  const std::string path = path_of_data(arguments, key);
  const bool is_sound = is_sound_folder(model, path);
  const char* const what = is_sound ? "recordings" : "images";
  for (const char* other :
       {"sequence_length", "token_type", "packing", "long_documents", "skip_broken_lines"})
    if (given(arguments, other))
      fail(WEFT_INVALID_ARGUMENT, "{} is for text and tokens, but {} is a folder of {}; leave it out",
           flag_of(other), path, what);
  for (const char* other : is_sound ? std::vector{"flip", "random_crop"} : std::vector{"tokenizer"})
    if (given(arguments, other))
      fail(WEFT_INVALID_ARGUMENT, "{} is for {}, but {} is a folder of {}; leave it out", flag_of(other),
           is_sound ? "images" : "text and transcripts", path, what);
  const auto note = [&](const std::string& line) { world.print_on_master(line); };
  const double held_out = real(arguments, "held_out", 0);
  const data::Part part = part_of(arguments, held_out, use.part);
  if (is_sound) {
    data::SoundOptions options;
    options.held_out = held_out;
    options.part = part;
    options.seed = use.seed;
    return open_recordings(model, path, use.labels, options, tokenizer_of(arguments, model), flag_of, note);
  }
  data::ImageOptions options;
  options.random_flip = flag(arguments, "flip");
  if (given(arguments, "random_crop")) options.random_crop = real(arguments, "random_crop", 0);
  options.held_out = held_out;
  options.part = part;
  options.seed = use.seed;
  return open_images(model, path, options, flag_of, note);
}

// Throws for flags of folders of images.
void refuse_image_flags(const json& arguments, const Model& model) {
  for (const char* image_flag : {"flip", "random_crop"})
    if (given(arguments, image_flag))
      fail(WEFT_INVALID_ARGUMENT,
           "{} is for folders of images, but --data is none that {} reads; leave it out", flag_of(image_flag),
           model.architecture());
}

}  // namespace

int64_t loader_workers(const json& arguments, const char* key, const Model& model, const World& world) {
  if (given(arguments, "workers")) {
    const int64_t workers = integer(arguments, "workers", 0);
    if (workers >= 0 && workers <= 256) return workers;
    fail(WEFT_INVALID_ARGUMENT, "--workers is {}, must be 0 to 256", workers);
  }
  if (!is_folder_of_files(model, path_of_data(arguments, key))) return 0;
  return std::clamp<int64_t>(std::thread::hardware_concurrency() / static_cast<unsigned>(world.local_size()),
                             1, 4);
}

std::shared_ptr<data::Dataset> open_data(const json& arguments, const char* key, const Model& model,
                                         const World& world) {
  if (is_folder_of_files(model, text(arguments, key))) return open_files(arguments, key, model, world, {});
  return open_dataset(model, text(arguments, key), sequence_length(arguments), token_type(arguments),
                      flag_of);
}

std::shared_ptr<data::Dataset> open_encoder_inputs(const json& arguments, const Model& model,
                                                   const World& world) {
  const std::string path = text(arguments, "inputs");
  if (is_sound_folder(model, path)) return open_files(arguments, "inputs", model, world, {.labels = false});
  const bool is_wav = path.ends_with(".wav") || path.ends_with(".WAV");
  if (!is_wav || nn::find_sound_model(model.module()) == nullptr) return data::tensors(path);
  return data::sound_file(
      path, spectrum_processing(model, [&](const std::string& line) { world.print_on_master(line); }));
}

namespace {

ObjectiveOptions objective_options(const json& arguments, int64_t seed) {
  ObjectiveOptions options;
  if (given(arguments, "objective") && text(arguments, "objective").empty())
    fail(WEFT_INVALID_ARGUMENT, "--objective is empty: give its name, or leave the flag out");
  options.objective = text(arguments, "objective");
  if (given(arguments, "special_ids"))
    options.special_ids = arguments.at("special_ids").get<std::vector<int64_t>>();
  if (given(arguments, "mask_token_id")) options.mask_token_id = integer(arguments, "mask_token_id", 0);
  if (given(arguments, "mask_patch_size")) options.mask_patch_size = integer(arguments, "mask_patch_size", 0);
  if (given(arguments, "mlm_probability")) options.mlm_probability = real(arguments, "mlm_probability", 0);
  if (given(arguments, "mask_ratio")) options.mask_ratio = real(arguments, "mask_ratio", 0);
  options.seed = seed;
  return options;
}

std::shared_ptr<data::QuestionSamples> questions_of(const json& arguments, const Model& model,
                                                    const ObjectiveOptions& objective, const World& world,
                                                    data::Part held_out_part) {
  refuse_image_flags(arguments, model);
  const data::Part part = part_of(arguments, real(arguments, "held_out", 0), held_out_part);
  return open_question_data(arguments, model, tokenizer_of(arguments, model), objective, world, part);
}

}  // namespace

std::shared_ptr<data::QuestionSamples> open_questions(const json& arguments, const Model& model, int64_t seed,
                                                      const World& world, data::Part held_out_part) {
  std::shared_ptr<data::QuestionSamples> samples;
  on_every_rank(world.communicator(), [&] {
    samples = questions_of(arguments, model, objective_options(arguments, seed), world, held_out_part);
  });
  return samples;
}

std::shared_ptr<data::Dataset> open_labelled_data(const json& arguments, const Model& model, int64_t seed,
                                                  const World& world, data::Part held_out_part) {
  const ObjectiveOptions objective = objective_options(arguments, seed);
  std::shared_ptr<data::Dataset> dataset;
  on_every_rank(world.communicator(), [&] {
    if (is_question_data(arguments, model)) {
      dataset = questions_of(arguments, model, objective, world, held_out_part);
      return;
    }
    refuse_question_flags(arguments, model);
    if (is_folder_of_files(model, path_of_data(arguments, "data"))) {
      dataset = with_usual_objective(model,
                                     open_files(arguments, "data", model, world, {true, seed, held_out_part}),
                                     objective, flag_of);
      return;
    }
    refuse_image_flags(arguments, model);
    const TextData text(arguments, model, world, held_out_part);
    dataset = text.is_wanted() ? text.open(model, objective)
                               : open_dataset(model, text.file(), sequence_length(arguments),
                                              token_type(arguments), objective, flag_of);
  });
  return dataset;
}

std::shared_ptr<data::TextDocuments> open_documents(const json& arguments, const Model& model, int64_t seed,
                                                    const World& world, data::Part held_out_part) {
  std::shared_ptr<data::TextDocuments> documents;
  on_every_rank(world.communicator(), [&] {
    for (const char* other : {"packing", "word_error_rate", "token_type"})
      if (given(arguments, other))
        fail(WEFT_INVALID_ARGUMENT,
             "{} has no effect with --by-document, which measures each document by itself; leave one of them "
             "out",
             flag_of(other));
    if (is_folder_of_files(model, path_of_data(arguments, "data")) || is_question_data(arguments, model))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: --by-document measures the documents of text, which {} does not read; leave it out",
           path_of_data(arguments, "data"), model.architecture());
    refuse_image_flags(arguments, model);
    refuse_question_flags(arguments, model);
    documents = TextData(arguments, model, world, held_out_part)
                    .open_documents(model, objective_options(arguments, seed));
  });
  return documents;
}

}  // namespace weft::command
