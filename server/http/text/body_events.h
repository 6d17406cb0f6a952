// Reads a JSON body event by event, so that no data is held twice, and the first error ends the reading. This base
// class has the code that all bodies with token matrices share; a subclass knows the members. Internal to server/http.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/json_events.h"
#include "base/stop.h"
#include "base/text.h"
#include "client/error_details.h"
#include "maxsim/v1/rerank.pb.h"
#include "nlohmann/json.hpp"

namespace maxsim::http {

class BodyEvents : public JsonEvents {
 public:
  using Json = nlohmann::json;

  // The members of a matrix that is an object.
  enum class Part : uint8_t { kNone, kDtype, kShape, kData };

  // Parses the body. Call it once. Returns INVALID_ARGUMENT, naming the member, its value and what is accepted, or the
  // error of `stop`.
  absl::Status Read(std::string_view body);

 protected:
  // Messages quote at most this many bytes of the client's text.
  static constexpr size_t kLongestQuote = 64;

  // `stop` may be null and must outlive the object.
  BodyEvents(int max_depth, const StopCheck& stop) : JsonEvents(max_depth), stop_(stop) {}

  // A subclass defines these functions, which are called for values that are neither part of a matrix nor ignored.
  // `exact` is the number as it was sent. StartList, StartObject and Key may call ReadRows, ReadEncoded, Skip and
  // Ignore.
  virtual bool Null() { return Refuse("null"); }
  virtual bool Bool(bool value) { return Refuse(value ? "true" : "false"); }
  virtual bool Text(std::string& value) = 0;
  virtual bool Integer(int64_t value) = 0;
  virtual bool Number(double value, const Json& exact) { return Refuse(Shown(exact)); }
  virtual bool StartList() = 0;
  virtual bool EndList() = 0;
  virtual bool StartObject() = 0;
  virtual bool Key(std::string& key) = 0;
  virtual bool EndObject() = 0;

  // Reports that a value of this kind is not allowed in this place. `shown` is the value as it was sent. Returns false.
  virtual bool Refuse(std::string_view shown) = 0;
  // Names the value that is read as a matrix, "query" for example.
  virtual std::string MatrixPath() const = 0;
  // Called when the matrix has been read.
  virtual bool EndMatrix() { return true; }
  // Called at the end of a container that Ignore skips.
  virtual bool EndIgnored() { return true; }

  // Read the list or object that has just begun as a matrix: ReadRows reads [[...], ...] as F32, ReadEncoded reads an
  // object with dtype, shape and data. A matrix of more than `max_rows` rows is an error that names the limit
  // `limit_name`.
  bool ReadRows(v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name);
  bool ReadEncoded(v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name);
  // Reads a matrix that is an object whose first member `key` has already been passed to Key.
  bool ReadEncoded(v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name, std::string_view key) {
    return ReadEncoded(matrix, max_rows, limit_name) && SelectPart(key);
  }
  // Skips to the end of the list or object that has just begun, and then reports an error that quotes it.
  bool Skip();
  // Ignores the container that has just begun.
  bool Ignore();

  // Ends the reading with an error about a member of the body.
  bool Wrong(std::string_view member, std::string_view what) { return Fail(client::InvalidField(member, what)); }
  bool Wrong(std::string_view member, std::string_view what, const client::Limit& limit) {
    return Fail(client::InvalidField(member, what, limit));
  }
  bool WrongValue(std::string_view member, std::string_view shown, std::string_view wanted) {
    return Wrong(member, Cat("is ", Printable(shown, kLongestQuote), wanted));
  }
  // Returns a value as it would be written in JSON, cut short.
  static std::string Shown(const Json& value);
  static std::string Shown(const std::string& text);
  // Returns the text of the list or object that has just ended. `begin` is its first byte in the body.
  std::string_view Since(size_t begin) const { return body_.substr(begin, position() - begin); }

 private:
  enum class Reading : uint8_t { kMembers, kSkipped, kIgnored, kRows, kEncoded, kShape };

  bool FailTooDeep(int max_depth) override;
  bool Value(std::string_view kind) override;  // null alone comes here
  bool OnBool(bool value) override;
  bool OnString(std::string& value) override;
  bool OnInteger(int64_t value) override;
  bool OnLargeInteger(uint64_t value) override;
  bool OnFloat(double value) override;
  bool OnStartObject() override;
  bool OnKey(std::string& key) override;
  bool OnEndObject() override;
  bool OnStartArray() override;
  bool OnEndArray() override;

  void BeginMatrix(Reading reading, v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name);
  // Called within a matrix, or within a list or object that is skipped: StartContainer and EndContainer when a list or
  // object begins or ends there, Scalar for a single value that is not part of the matrix.
  bool StartContainer();
  bool EndContainer();
  bool Scalar(std::string_view shown);
  bool MatrixNumber(double value, const Json& exact);
  bool StartRow();
  bool EndRow();
  bool EndRows();
  bool EndShape();
  bool SelectPart(std::string_view key);
  bool EndParts();
  bool ReadDtype(const std::string& name);
  bool ReadData(const std::string& text);

  // Errors of a matrix.
  bool NoMatrix() { return Wrong(MatrixPath(), "must be a list of rows of numbers, or {dtype, shape, data}"); }
  bool RefuseRow();
  bool RefuseElement(std::string_view shown);
  bool RefusePart(std::string_view shown);

  const StopCheck& stop_;
  std::string_view body_;
  absl::Status stopped_;
  Reading reading_ = Reading::kMembers;
  Reading outer_ = Reading::kMembers;  // what to continue with after a skipped or ignored container
  int skip_depth_ = 0;                 // within that container
  size_t container_begin_ = 0;         // of one that a message may show

  v1::TokenMatrix* matrix_ = nullptr;
  int matrix_depth_ = 0;  // within its list or object
  int64_t max_rows_ = 0;
  std::string_view limit_name_;
  int64_t num_rows_ = 0;  // whole ones
  int64_t dim_ = 0;       // of the first row
  int64_t row_size_ = 0;  // of the row that is being read
  int64_t num_shape_ = 0;
  bool shape_is_wrong_ = false;
  Part part_ = Part::kNone;
  uint32_t seen_parts_ = 0;
};

}  // namespace maxsim::http
