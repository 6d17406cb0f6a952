#include "server/encoder/answer.h"

#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/json_events.h"
#include "base/text.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"

namespace maxsim::encoder {
namespace {

// The parts that are read are nested 5 deep at most. Members that are not read may be nested more deeply.
constexpr int kMaxDepth = 16;

// Reads the matrices of an answer in one of two forms: {"data": [{"index": I, "data": ROWS}, ...]}, where "embedding"
// may replace the inner "data" and ROWS may be base64; or [ROWS, ...]. ROWS is [[value, ...], ...]. Skips all other
// members.
class MatrixEvents : public JsonEvents {
 public:
  MatrixEvents(bool is_list, size_t num_texts, int32_t dim)
      : JsonEvents(kMaxDepth, Text::kSecret),
        is_list_(is_list),
        rows_depth_(is_list ? 2 : 4),
        dim_(dim),
        texts_(num_texts) {}

  absl::StatusOr<Answer> Finish() {
    if (num_read_ != texts_.size()) {
      return absl::InternalError(Cat("it has ", num_read_, " matrices for ", texts_.size(), " texts"));
    }
    Answer answer;
    answer.texts.reserve(texts_.size());
    for (std::optional<EncodedText>& text : texts_) answer.texts.push_back(*std::move(text));
    return answer;
  }

  // Returns the error of an answer that is well-formed in the dialect but cannot be used; OK otherwise.
  const absl::Status& unusable() const { return unusable_; }

 private:
  // Stops parsing because the answer, though well-formed, cannot be used.
  bool Refuse(std::string_view message) {
    unusable_ = absl::InternalError(ForStrCat(message));
    return Fail(message);
  }

  bool OnStartObject() override {
    if (depth() == 1 && is_list_) return Fail("an array expected, not an object");
    if (depth() == 3 && in_data_) BeginText();
    if (in_rows_) return Fail("numbers expected in a matrix, not an object");
    return true;
  }
  bool OnKey(std::string& key) override {
    if (depth() == 1) at_data_ = key == "data";
    if (depth() == 3 && in_data_) {
      at_rows_ = key == "data" || key == "embedding";
      at_index_ = key == "index";
    }
    return true;
  }
  bool OnEndObject() override {
    if (depth() == 2 && in_data_) return EndText();
    return true;
  }
  bool OnStartArray() override {
    if (depth() == 1 && !is_list_) return Fail("an object expected, not an array");
    if (in_rows_) {
      if (depth() != rows_depth_ + 1) return Fail("a matrix is nested too deep");
      row_begin_ = text_.values.size();
      return true;
    }
    if (is_list_) {
      if (depth() == rows_depth_) {
        BeginText();
        in_rows_ = true;
      }
      return true;
    }
    if (depth() == 2 && std::exchange(at_data_, false)) in_data_ = true;
    if (depth() == rows_depth_ && in_data_ && std::exchange(at_rows_, false)) {
      if (std::exchange(has_rows_, true)) return Fail("a text has two matrices");
      in_rows_ = true;
    }
    return true;
  }
  bool OnEndArray() override {
    if (in_rows_ && depth() == rows_depth_) return EndRow();
    if (in_rows_ && depth() == rows_depth_ - 1) {
      in_rows_ = false;
      return !is_list_ || EndText();
    }
    if (depth() == 1 && !is_list_) in_data_ = false;
    return true;
  }

  bool OnFloat(double value) override { return OnNumber(static_cast<float>(value)); }
  bool OnInteger(int64_t value) override {
    if (depth() == 3 && in_data_ && std::exchange(at_index_, false)) {
      if (value < 0 || static_cast<uint64_t>(value) >= texts_.size()) {
        return Refuse(Cat("index ", value, " is not below the call's ", texts_.size(), " texts"));
      }
      index_ = static_cast<size_t>(value);
      return true;
    }
    return OnNumber(static_cast<float>(value));
  }
  bool OnNumber(float value) {
    if (!in_rows_) return Value("a number");
    if (depth() != rows_depth_ + 1) {
      return Refuse("a text has one vector, not one for each token: the encoder pools them");
    }
    text_.values.push_back(value);
    return true;
  }
  bool OnString(std::string& value) override {
    if (depth() != 3 || !in_data_ || !std::exchange(at_rows_, false)) return Value("a string");
    if (std::exchange(has_rows_, true)) return Fail("a text has two matrices");
    return ReadBase64(value);
  }
  bool Value(std::string_view kind) override {
    if (in_rows_) return Fail(Cat("numbers expected in a matrix, not ", kind));
    if (depth() == 0) return Fail(Cat(is_list_ ? "an array" : "an object", " expected, not ", kind));
    return true;
  }

  void BeginText() {
    text_ = {};
    index_.reset();
    has_rows_ = is_list_;
    at_rows_ = at_index_ = false;
  }

  bool EndRow() {
    const size_t width = text_.values.size() - row_begin_;
    if (width != static_cast<size_t>(dim_)) {
      if (dim_ != 0) return Refuse(Cat("a vector has ", width, " values, but ", dim_, " are expected"));
      if (width < static_cast<size_t>(kMinDim) || width > static_cast<size_t>(kMaxDim)) {
        return Refuse(Cat("a vector has ", width, " values, which is not in ", kMinDim, " .. ", kMaxDim));
      }
      dim_ = static_cast<int32_t>(width);
    }
    ++text_.num_tokens;
    return true;
  }

  bool EndText() {
    if (!has_rows_) return Fail("an element of \"data\" has neither \"data\" nor \"embedding\"");
    const size_t index = index_.value_or(num_read_);
    if (index >= texts_.size()) return Refuse(Cat("it has more matrices than the call's ", texts_.size(), " texts"));
    if (texts_[index].has_value()) return Refuse(Cat("index ", index, " appears twice"));
    text_.dim = dim_;
    texts_[index] = std::move(text_);
    ++num_read_;
    return true;
  }

  bool ReadBase64(const std::string& text) {
    std::string bytes;
    if (!absl::Base64Unescape(text, &bytes)) return Fail("a matrix is a text that is not base64");
    // Base64 does not show where a row ends.
    if (dim_ == 0) return Refuse("matrices are in base64, but encoder.dim is not set");
    const size_t row_bytes = static_cast<size_t>(dim_) * sizeof(float);
    if (bytes.size() % row_bytes != 0) {
      return Refuse(Cat("a matrix has ", bytes.size(), " bytes, which are not whole rows of ", dim_, " values of f32"));
    }
    static_assert(std::endian::native == std::endian::little);
    text_.values.resize(bytes.size() / sizeof(float));
    std::memcpy(text_.values.data(), bytes.data(), bytes.size());
    text_.num_tokens = static_cast<int32_t>(bytes.size() / row_bytes);
    return true;
  }

  const bool is_list_;
  const int rows_depth_;  // depth() inside ROWS
  int32_t dim_;           // 0 until the first row
  std::vector<std::optional<EncodedText>> texts_;
  size_t num_read_ = 0;
  absl::Status unusable_;

  bool at_data_ = false;   // the value that comes next is the list of all texts
  bool in_data_ = false;   // within that list
  bool at_rows_ = false;   // the value that comes next is a matrix
  bool at_index_ = false;  // the value that comes next is an index
  bool in_rows_ = false;   // within a matrix
  bool has_rows_ = false;  // of the text that is being read
  EncodedText text_;
  std::optional<size_t> index_;
  size_t row_begin_ = 0;  // in text_.values
};

absl::StatusOr<Answer> ParseMatrices(Dialect dialect, std::string_view body, size_t num_texts, int32_t dim) {
  MatrixEvents events(dialect == Dialect::kTei, num_texts, dim);
  if (absl::Status status = events.Parse(body); !status.ok()) {
    return events.unusable().ok() ? absl::UnavailableError(status.message()) : events.unusable();
  }
  return events.Finish();
}

absl::Status CheckText(const EncodedText& text, size_t idx, int32_t dim) {
  const std::string where = Cat("text ", idx, ": ");
  if (text.num_tokens == 0) return absl::InternalError(where + "no token");
  if (text.dim < kMinDim || text.dim > kMaxDim) {
    return absl::InternalError(Cat(where, "vectors of ", text.dim, " values, not of ", kMinDim, " .. ", kMaxDim));
  }
  if (text.dim != dim) {
    return absl::InternalError(Cat(where, "vectors of ", text.dim, " values, but ", dim, " are expected"));
  }
  const std::optional<size_t> unusable = FindUnusableElement(ScalarType::kF32, text.values.data(), text.values.size());
  if (!unusable.has_value()) return absl::OkStatus();
  return absl::InternalError(Cat(where, "value ", *unusable % static_cast<size_t>(dim), " of token ",
                                 *unusable / static_cast<size_t>(dim), " is ", text.values[*unusable],
                                 ", which cannot be scored"));
}

}  // namespace

absl::StatusOr<Answer> ParseAnswer(Dialect dialect, std::string_view body, size_t num_texts, int32_t dim) {
  absl::StatusOr<Answer> answer =
      dialect == Dialect::kMaxsim ? ParseTensors(body, num_texts) : ParseMatrices(dialect, body, num_texts, dim);
  if (!answer.ok()) return answer;
  for (size_t idx = 0; idx < answer->texts.size(); ++idx) {
    const int32_t expected = dim != 0 ? dim : answer->texts[0].dim;
    if (absl::Status status = CheckText(answer->texts[idx], idx, expected); !status.ok()) return status;
  }
  return answer;
}

}  // namespace maxsim::encoder
