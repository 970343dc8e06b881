// A data set: each line of a text file has the token ids of a sample, separated by spaces.
#include <weft/define_data.hpp>

#include <ATen/ops/tensor.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace data = weft::data;

// Reads the file once. Samples are then read from several threads, so nothing changes any more.
class Lines final : public data::Dataset {
 public:
  Lines(std::string path, int64_t ids, int64_t vocabulary) : path_(std::move(path)), ids_(ids) {
    std::ifstream file(path_);
    if (!file) throw weft::Error(WEFT_NOT_FOUND, path_ + ": cannot be opened");
    for (std::string line; std::getline(file, line);)
      if (!line.empty()) add(line, vocabulary);
  }

  int64_t size() const override { return static_cast<int64_t>(values_.size()) / ids_; }

  // The names are those of the model's inputs. A causal model shifts the labels itself.
  weft::Batch get(const std::vector<int64_t>& indices) const override {
    std::vector<int64_t> rows;
    for (const int64_t index : indices)
      rows.insert(rows.end(), values_.begin() + index * ids_, values_.begin() + (index + 1) * ids_);
    const at::Tensor ids = at::tensor(rows, at::kLong).view({-1, ids_});
    weft::Batch batch;
    batch.set("input_ids", ids);
    batch.set("labels", ids);
    return batch;
  }

  std::string name() const override { return path_; }

 private:
  void add(const std::string& line, int64_t vocabulary) {
    const std::string where = path_ + ", line " + std::to_string(size() + 1) + ": ";
    std::istringstream words(line);
    for (int64_t i = 0; i < ids_; ++i) {
      int64_t id = -1;
      if (!(words >> id)) throw weft::Error(WEFT_INVALID_ARGUMENT, where + "needs more ids");
      if (id < 0 || id >= vocabulary)
        throw weft::Error(WEFT_INVALID_ARGUMENT, where + std::to_string(id) + " is no id of the vocabulary");
      values_.push_back(id);
    }
  }

  const std::string path_;
  const int64_t ids_;
  std::vector<int64_t> values_;
};

std::shared_ptr<data::Dataset> open_lines(const data::OpenRequest& request) {
  if (request.paths.size() != 1)
    throw weft::Error(WEFT_INVALID_ARGUMENT, "template_name reads one file, got several paths");
  for (const weft::Vocabulary& known : request.vocabularies)
    if (known.field == "input_ids")
      return std::make_shared<Lines>(request.paths[0], request.options.get<int64_t>("ids"), known.size);
  throw weft::Error(WEFT_INVALID_ARGUMENT, "template_name is for models that read tokens");
}

}  // namespace

WEFT_DATA_LIBRARY(open_lines)
