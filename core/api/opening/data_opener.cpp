#include "opening/data_opener.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/settings.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "opening/model_data.hpp"
#include "opening/model_files.hpp"
#include "opening/model_state.hpp"
#include "opening/text_data.hpp"
#include "sound/sound_format.hpp"
#include "weft/nn/sound_model.hpp"

namespace weft {

using namespace settings;

namespace {

data::TokenType token_type(const DataOpener& data) {
  const std::string type = text(data.settings, "token_type", "uint16");
  if (type != "uint16" && type != "uint32")
    fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be uint16 or uint32", data.called("token_type"), type);
  return type == "uint16" ? data::TokenType::kUint16 : data::TokenType::kUint32;
}

std::function<void(const std::string& line)> notes(const World& world) {
  return [world](const std::string& note) { world.print_on_master(note); };
}

// Returns the images or recordings of the folder under `key`. Without `labels` transcripts may be missing.
std::shared_ptr<data::Dataset> open_files(const DataOpener& data, const char* key, bool labels) {
  const std::string path = data.path_of(key);
  const bool is_sound = is_sound_folder(data.model, path);
  const char* const what = is_sound ? "recordings" : "images";
  data.refuse({"sequence_length", "token_type", "packing", "long_documents", "skip_broken_lines", "bytes"},
              fmt::format("is for text and tokens, but {} is a folder of {}; leave it out", path, what));
  if (is_sound)
    data.refuse({"flip", "random_crop"},
                fmt::format("is for images, but {} is a folder of {}; leave it out", path, what));
  else
    data.refuse(
        {"tokenizer"},
        fmt::format("is for text and transcripts, but {} is a folder of {}; leave it out", path, what));
  const double held_out = data.held_out();
  if (is_sound) {
    data::SoundOptions options;
    options.held_out = held_out;
    options.part = data.part(held_out);
    options.seed = data.seed;
    return open_recordings(data.model, path, labels, options, data.tokenizer(), data.called,
                           notes(data.world));
  }
  data::ImageOptions options;
  options.random_flip = flag(data.settings, "flip");
  if (given(data.settings, "random_crop")) options.random_crop = real(data.settings, "random_crop", 0);
  options.held_out = held_out;
  options.part = data.part(held_out);
  options.seed = data.seed;
  return open_images(data.model, path, options, data.called, notes(data.world));
}

void refuse_image_settings(const DataOpener& data) {
  data.refuse({"flip", "random_crop"},
              fmt::format("is for folders of images, but {} is none that {} reads; leave it out",
                          data.called("data"), data.model.architecture()));
}

void refuse_question_settings(const DataOpener& data) {
  data.refuse({"overlap", "max_answer_tokens", "predictions"},
              fmt::format("is for files of questions, which classes that end in ForQuestionAnswering read, "
                          "but {} reads {} as something else: leave it out",
                          data.model.architecture(), data.called("data")));
}

std::vector<std::string> paths_of(const nlohmann::json& data) {
  return data.is_string() ? std::vector{data.get<std::string>()} : data.get<std::vector<std::string>>();
}

// Throws for PATH=WEIGHT.
void refuse_weight(const DataOpener& data, const std::string& path) {
  const size_t equals = path.rfind('=');
  std::error_code ignored;
  if (equals == path.npos || std::filesystem::exists(path, ignored) ||
      !std::filesystem::exists(path.substr(0, equals), ignored))
    return;
  fail(WEFT_INVALID_ARGUMENT,
       "{} {}: a weight is for text, and every question comes once per epoch; leave out \"{}\"",
       data.called("data"), path, path.substr(equals));
}

std::shared_ptr<data::QuestionSamples> questions_of(const DataOpener& data) {
  refuse_image_settings(data);
  data.refuse({"packing", "long_documents", "skip_broken_lines", "token_type", "objective", "word_error_rate",
               "bytes"},
              fmt::format("is for other data, but {} reads questions and their contexts; leave it out",
                          data.model.architecture()));
  const std::vector<std::string> paths = paths_of(data.settings.at("data"));
  for (const std::string& path : paths) refuse_weight(data, path);
  data::QuestionOptions options;
  options.sequence_length = data.sequence_length();
  if (given(data.settings, "overlap")) options.overlap = integer(data.settings, "overlap", 0);
  options.held_out = data.held_out();
  options.part = data.part(options.held_out);
  options.seed = data.seed;
  options.note = notes(data.world);
  return open_questions(data.model, paths, data.tokenizer(), options, data.objective(), data.called);
}

std::shared_ptr<data::Dataset> labelled_of(const DataOpener& data) {
  if (data.has_questions()) return questions_of(data);
  refuse_question_settings(data);
  const ObjectiveOptions objective = data.objective();
  if (is_folder_of_files(data.model, data.path_of("data")))
    return with_usual_objective(data.model, open_files(data, "data", true), objective, data.called);
  refuse_image_settings(data);
  const TextData text(data);
  if (text.is_wanted()) return text.open(objective);
  return open_dataset(data.model, text.file(), data.sequence_length(), token_type(data), objective,
                      data.called);
}

std::shared_ptr<data::TextDocuments> documents_of(const DataOpener& data) {
  data.refuse(
      {"packing", "word_error_rate", "token_type"},
      fmt::format("has no effect with {}, which measures each document by itself; leave one of them out",
                  data.called("by_document")));
  if (is_folder_of_files(data.model, data.path_of("data")) || data.has_questions())
    fail(WEFT_INVALID_ARGUMENT, "{}: {} measures the documents of text, which {} does not read; leave it out",
         data.path_of("data"), data.called("by_document"), data.model.architecture());
  refuse_image_settings(data);
  refuse_question_settings(data);
  return TextData(data).open_documents(data.objective());
}

// Calls `open` on every rank; collective.
template <class Open>
auto together(const DataOpener& data, const Open& open) {
  decltype(open(data)) opened;
  on_every_rank(data.world.communicator(), [&] { opened = open(data); });
  return opened;
}

}  // namespace

std::shared_ptr<data::Dataset> DataOpener::labelled() const {
  return together(*this, labelled_of);
}

std::shared_ptr<data::TextDocuments> DataOpener::documents() const {
  return together(*this, documents_of);
}

std::shared_ptr<data::QuestionSamples> DataOpener::questions() const {
  return together(*this, questions_of);
}

bool DataOpener::has_questions() const {
  const std::vector<std::string> paths = paths_of(settings.at("data"));
  const bool is_other =
      paths.size() == 1 && (paths.front().ends_with(".safetensors") || paths.front().ends_with(".bin"));
  return !is_other && answers_questions(model);
}

std::shared_ptr<data::Dataset> DataOpener::as_it_is(const char* key) const {
  const std::string path = text(settings, key);
  if (is_folder_of_files(model, path)) return open_files(*this, key, true);
  return open_dataset(model, path, sequence_length(), token_type(*this), called);
}

std::shared_ptr<data::Dataset> DataOpener::encoder_inputs(const char* key) const {
  const std::string path = text(settings, key);
  if (is_sound_folder(model, path)) return open_files(*this, key, false);
  if (!data::sound_files().has_name_of(path) || nn::find_sound_model(model.module()) == nullptr)
    return data::tensors(path);
  return data::sound_file(path, spectrum_processing(model, notes(world)));
}

int64_t DataOpener::loader_workers(const char* key) const {
  if (given(settings, "workers")) {
    const int64_t workers = integer(settings, "workers", 0);
    if (workers >= 0 && workers <= 256) return workers;
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be 0 to 256", called("workers"), workers);
  }
  if (!is_folder_of_files(model, path_of(key))) return 0;
  return std::clamp<int64_t>(std::thread::hardware_concurrency() / static_cast<unsigned>(world.local_size()),
                             1, 4);
}

int64_t DataOpener::sequence_length() const {
  const int64_t length = integer(settings, "sequence_length", 0);
  if (given(settings, "sequence_length") && length <= 0)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be positive", called("sequence_length"), length);
  return length;
}

std::string DataOpener::path_of(const char* key) const {
  const nlohmann::json& paths = settings.at(key);
  if (paths.is_string()) return paths.get<std::string>();
  return paths.size() == 1 ? paths.front().get<std::string>() : "";
}

double DataOpener::held_out() const {
  const double share = real(settings, "held_out", 0);
  if (given(settings, "held_out") && !(share > 0 && share < 1))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be more than 0 and less than 1", called("held_out"), share);
  return share;
}

data::Part DataOpener::part(double held_out) const {
  if (!given(settings, "part")) return held_out == 0 ? data::Part::kAll : held_out_part;
  const std::string part = text(settings, "part");
  if (part == "all") return data::Part::kAll;
  if (part != "train" && part != "held-out")
    fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be train, held-out or all", called("part"),
         printable(part, 60));
  if (held_out == 0)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, but no samples are held out; give {} too", called("part"), part,
         called("held_out"));
  return part == "train" ? data::Part::kTraining : data::Part::kHeldOut;
}

std::optional<Tokenizer> DataOpener::tokenizer() const {
  const std::string folder = text(settings, given(settings, "tokenizer") ? "tokenizer" : "model");
  if (!given(settings, "tokenizer") && !Tokenizer::is_in(folder)) return std::nullopt;
  model.shared().tokenizer = Tokenizer::open(folder);
  return model.shared().tokenizer;
}

ObjectiveOptions DataOpener::objective() const {
  ObjectiveOptions options;
  if (given(settings, "objective") && text(settings, "objective").empty())
    fail(WEFT_INVALID_ARGUMENT, "{} is empty: give its name, or leave it out", called("objective"));
  options.objective = text(settings, "objective");
  if (given(settings, "special_ids"))
    options.special_ids = settings.at("special_ids").get<std::vector<int64_t>>();
  if (given(settings, "mask_token_id")) options.mask_token_id = integer(settings, "mask_token_id", 0);
  if (given(settings, "mask_patch_size")) options.mask_patch_size = integer(settings, "mask_patch_size", 0);
  if (given(settings, "mlm_probability")) options.mlm_probability = real(settings, "mlm_probability", 0);
  if (given(settings, "mask_ratio")) options.mask_ratio = real(settings, "mask_ratio", 0);
  options.seed = seed;
  return options;
}

void DataOpener::refuse(std::initializer_list<const char*> names, const std::string& why) const {
  for (const char* name : names)
    if (given(settings, name)) fail(WEFT_INVALID_ARGUMENT, "{} {}", called(name), why);
}

}  // namespace weft
