#include "opening/data_opener.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/job_options.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "opening/label_data.hpp"
#include "opening/library_data.hpp"
#include "opening/model_data.hpp"
#include "opening/model_files.hpp"
#include "opening/model_state.hpp"
#include "opening/objective_library.hpp"
#include "opening/text_data.hpp"
#include "sound/sound_format.hpp"
#include "weft/nn/sound_model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

namespace {

data::TokenType token_type(const DataOpener& data) {
  const bool is_wide = data.settings.text("token_type") == "uint32";
  return is_wide ? data::TokenType::kUint32 : data::TokenType::kUint16;
}

std::function<void(const std::string& line)> notes(const World& world) {
  return [world](const std::string& note) { world.print_on_master(note); };
}

data::AutoAugment auto_augment_named(const std::string& name) {
  if (name.empty()) return data::AutoAugment::kNone;
  if (name == "randaugment") return data::AutoAugment::kRandAugment;
  return name == "autoaugment_imagenet" ? data::AutoAugment::kImageNet : data::AutoAugment::kCifar10;
}

// Returns the random changes of images that are asked for.
data::ImageChanges image_changes(const DataOpener& data) {
  data::ImageChanges changes;
  changes.crop_padding = data.settings.integer("crop_padding", 0);
  changes.random_flip = data.settings.flag("flip");
  changes.random_erasing = data.settings.real("random_erasing", 0);
  changes.mixup = data.settings.real("mixup", 0);
  changes.cutmix = data.settings.real("cutmix", 0);
  changes.seed = data.seed;
  return changes;
}

// Returns the images or recordings of the folder under `key`. Without `labels` transcripts may be missing.
std::shared_ptr<data::Dataset> open_files(const DataOpener& data, const char* key, bool labels) {
  const std::string path = data.path_of(key);
  const bool is_sound = is_sound_folder(data.model, path);
  const char* const kind = is_sound ? "recordings" : "images";
  data.refuse_others(kind, fmt::format("{} is a folder of {}", path, kind));
  const double held_out = data.held_out();
  if (is_sound) {
    data::SoundOptions options;
    options.held_out = held_out;
    options.part = data.part(held_out);
    options.seed = data.seed;
    return open_recordings(data.model, path, labels, options, data.tokenizer(), data.settings.name(),
                           notes(data.world));
  }
  data::ImageOptions options;
  options.random_flip = data.settings.flag("flip");
  if (data.settings.given("random_crop")) options.random_crop = data.settings.real("random_crop");
  options.crop_padding = data.settings.integer("crop_padding", 0);
  options.auto_augment = auto_augment_named(data.settings.text("auto_augment"));
  options.held_out = held_out;
  options.part = data.part(held_out);
  options.seed = data.seed;
  // What is left is done to the values, whatever they come from.
  data::ImageChanges changes = image_changes(data);
  changes.random_flip = false;
  changes.crop_padding = 0;
  return change_images(data.model,
                       open_images(data.model, path, options, data.settings.name(), notes(data.world)),
                       changes, data.settings.name());
}

// Throws for PATH=WEIGHT.
void refuse_weight(const DataOpener& data, const std::string& path, const char* sample) {
  const size_t equals = path.rfind('=');
  std::error_code ignored;
  if (equals == path.npos || std::filesystem::exists(path, ignored) ||
      !std::filesystem::exists(path.substr(0, equals), ignored))
    return;
  fail(WEFT_INVALID_ARGUMENT,
       "{} {}: a weight is for text, and every {} comes once per epoch; leave out \"{}\"",
       data.called("data"), path, sample, path.substr(equals));
}

std::shared_ptr<data::QuestionSamples> questions_of(const DataOpener& data) {
  const std::vector<std::string> paths = data.settings.words("data");
  data.refuse_others("questions",
                     fmt::format("{} reads questions and their contexts", data.model.architecture()));
  for (const std::string& path : paths) refuse_weight(data, path, "question");
  data::QuestionOptions options;
  options.sequence_length = data.sequence_length();
  if (data.settings.given("overlap")) options.overlap = data.settings.integer("overlap");
  options.held_out = data.held_out();
  options.part = data.part(options.held_out);
  options.seed = data.seed;
  options.note = notes(data.world);
  return open_questions(data.model, paths, data.tokenizer(), options, data.objective(), data.settings.name());
}

// Opens the data with the library that "dataset" names.
std::shared_ptr<data::Dataset> library_data_of(const DataOpener& data) {
  const std::string name = data.settings.text("dataset");
  data.refuse_others("library", fmt::format("{} {} reads the data", data.called("dataset"), name));
  data::OpenRequest request;
  request.paths = data.settings.words("data");
  request.sequence_length = data.sequence_length();
  request.architecture = data.model.architecture();
  if (const nn::TokenModel* const tokens = nn::find_token_model(data.model.module()))
    request.vocabularies = tokens->vocabularies();
  request.tokenizer = data.tokenizer();
  request.seed = data.seed;
  request.note = notes(data.world);
  const double held_out = data.held_out();
  const auto options = library_data_options(name, data.settings.words("dataset_options"));
  auto opened =
      part_of(open_library_data(name, options, std::move(request)), data.part(held_out), held_out, data.seed);
  const ObjectiveOptions objective = data.objective();
  if (!objective.objective.empty())
    return with_objective(data.model, std::move(opened), objective, data.settings.name());
  return opened;
}

std::shared_ptr<data::Dataset> labelled_of(const DataOpener& data) {
  if (data.has_library()) return library_data_of(data);
  if (data.has_questions()) return questions_of(data);
  if (data.has_labels()) {
    for (const std::string& path : data.settings.words("data")) refuse_weight(data, path, "row");
    return LabelData(data, /*labels=*/true).open();
  }
  const ObjectiveOptions objective = data.objective();
  if (is_folder_of_files(data.model, data.path_of("data")))
    return with_usual_objective(data.model, open_files(data, "data", true), objective, data.settings.name());
  const TextData text(data);
  if (text.is_wanted()) return text.open(objective);
  return change_images(data.model,
                       open_dataset(data.model, text.file(), data.sequence_length(), token_type(data),
                                    objective, data.settings.name()),
                       image_changes(data), data.settings.name());
}

std::shared_ptr<data::TextDocuments> documents_of(const DataOpener& data) {
  if (data.has_library() || is_folder_of_files(data.model, data.path_of("data")) || data.has_questions() ||
      data.has_labels())
    fail(WEFT_INVALID_ARGUMENT, "{}: {} measures the documents of text, which {} does not read; leave it out",
         data.path_of("data"), data.called("by_document"), data.model.architecture());
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

bool DataOpener::has_library() const {
  return settings.given("dataset");
}

namespace {

// Returns whether "data" is a file of tensors or tokens.
bool is_binary(const Settings& settings) {
  const std::vector<std::string> paths = settings.words("data");
  return paths.size() == 1 && (paths.front().ends_with(".safetensors") || paths.front().ends_with(".bin"));
}

}  // namespace

bool DataOpener::has_questions() const {
  return !has_library() && !is_binary(settings) && answers_questions(model);
}

bool DataOpener::has_labels() const {
  return !has_library() && !is_binary(settings) && learns_labels_of_text(model);
}

std::shared_ptr<data::Dataset> DataOpener::as_it_is(const char* key) const {
  const std::string path = settings.text(key);
  if (is_folder_of_files(model, path)) return open_files(*this, key, true);
  return open_dataset(model, path, sequence_length(), token_type(*this), settings.name());
}

std::shared_ptr<data::Dataset> DataOpener::encoder_inputs(const char* key) const {
  const std::string path = settings.text(key);
  if (is_sound_folder(model, path)) return open_files(*this, key, false);
  if (!data::sound_files().has_name_of(path) || nn::find_sound_model(model.module()) == nullptr)
    return data::tensors(path);
  return data::sound_file(path, spectrum_processing(model, notes(world)));
}

int64_t DataOpener::loader_workers(const char* key) const {
  if (settings.given("workers")) return settings.integer("workers");
  if (has_library() || !is_folder_of_files(model, path_of(key))) return 0;
  return std::clamp<int64_t>(std::thread::hardware_concurrency() / static_cast<unsigned>(world.local_size()),
                             1, 4);
}

int64_t DataOpener::sequence_length() const {
  return settings.integer("sequence_length", 0);
}

std::string DataOpener::path_of(const char* key) const {
  const std::vector<std::string> paths = settings.words(key);
  return paths.size() == 1 ? paths.front() : "";
}

double DataOpener::held_out() const {
  const double share = settings.real("held_out", 0);
  if (settings.given("held_out") && !(share > 0 && share < 1))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be more than 0 and less than 1", called("held_out"), share);
  return share;
}

data::Part DataOpener::part(double held_out) const {
  if (!settings.given("part")) return held_out == 0 ? data::Part::kAll : held_out_part;
  const std::string part = settings.text("part");
  if (part == "all") return data::Part::kAll;
  if (held_out == 0)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, but no samples are held out; give {} too", called("part"), part,
         called("held_out"));
  return part == "train" ? data::Part::kTraining : data::Part::kHeldOut;
}

std::optional<Tokenizer> DataOpener::tokenizer() const {
  const std::string folder = settings.text(settings.given("tokenizer") ? "tokenizer" : "model");
  if (!settings.given("tokenizer") && !Tokenizer::is_in(folder)) return std::nullopt;
  model.shared().tokenizer = Tokenizer::open(folder);
  return model.shared().tokenizer;
}

std::string DataOpener::objective_of_labels() const {
  const std::string name = settings.text("objective");
  if (name.empty() || makes_labels(name) || find_job_option(settings.user(), "objective_options") == nullptr)
    return name;
  const std::string options =
      objective_options(name, settings.words("objective_options"), called("objective"));
  const std::string labels = open_objective(name, options, model).library().labels();
  if (!labels.empty() && !makes_labels(labels))
    fail(WEFT_FAILED_PRECONDITION, "{} {} asks for the labels of \"{}\", which is no objective of Weft",
         called("objective"), name, labels);
  return labels;
}

ObjectiveOptions DataOpener::objective() const {
  ObjectiveOptions options;
  if (settings.given("objective") && settings.text("objective").empty())
    fail(WEFT_INVALID_ARGUMENT, "{} is empty: give its name, or leave it out", called("objective"));
  options.objective = objective_of_labels();
  if (settings.given("special_ids")) options.special_ids = settings.integers("special_ids");
  if (settings.given("mask_token_id")) options.mask_token_id = settings.integer("mask_token_id");
  if (settings.given("mask_patch_size")) options.mask_patch_size = settings.integer("mask_patch_size");
  if (settings.given("mlm_probability")) options.mlm_probability = settings.real("mlm_probability");
  if (settings.given("mask_ratio")) options.mask_ratio = settings.real("mask_ratio");
  options.seed = seed;
  return options;
}

void DataOpener::refuse_others(const std::string& kind, const std::string& what) const {
  for (const auto& [name, value] : settings.all().items()) {
    const JobOption* const option = find_job_option(settings.user(), name);
    if (option == nullptr || option->data.empty()) continue;
    if (std::find(option->data.begin(), option->data.end(), kind) == option->data.end())
      fail(WEFT_INVALID_ARGUMENT, "{} is for {}, but {}; leave it out", settings.called(name),
           alternatives(option->data, "and"), what);
  }
}

}  // namespace weft
