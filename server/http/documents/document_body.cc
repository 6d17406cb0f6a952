#include "server/http/documents/document_body.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "collection/document_line.h"
#include "collection/filters/filter_json.h"
#include "server/http/text/body_events.h"
#include "server/http/text/json_text.h"
#include "server/service/documents/document_delete.h"
#include "server/service/documents/document_write.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::http {
namespace {

// Handles the events of a body's JSON. The depth is 1 within the body, 2 within the list, 3 within a document, and 4
// within a member's value.
class UpsertEvents final : public BodyEvents {
 public:
  UpsertEvents(const service::RequestLimits& limits, const StopCheck& stop, v1::UpsertRequest* request)
      : BodyEvents(kMaxDepth, stop), limits_(limits), request_(*request) {}

 private:
  // Payloads begin at depth 3, within a document. The parser accepts more levels than a payload may have, so that a
  // payload that is too deep is refused later, together with other errors in payloads.
  static constexpr int kMaxDepth = 3 + 2 * collection::kMaxPayloadDepth;

  enum class Part : uint8_t { kId, kTokens, kText, kPayload, kVersion };
  static constexpr uint32_t BitOf(Part part) { return uint32_t{1} << static_cast<int>(part); }

  bool Key(std::string& key) override {
    if (depth() == 1) {
      if (key != "documents") return Wrong(Printable(key, kLongestQuote), "is not a member (documents is)");
      return !std::exchange(has_documents_, true) || Wrong("documents", "appears twice");
    }
    if (key == "id") {
      part_ = Part::kId;
    } else if (key == "tokens") {
      part_ = Part::kTokens;
    } else if (key == "text") {
      part_ = Part::kText;
    } else if (key == "payload") {
      part_ = Part::kPayload;
    } else if (key == "version") {
      part_ = Part::kVersion;
    } else {
      return Wrong(Cat(DocumentPath(), ".", Printable(key, kLongestQuote)),
                   "is not a member (id, tokens, text, payload and version are)");
    }
    part_name_ = key;
    if ((seen_ & BitOf(part_)) != 0) return Wrong(Cat(DocumentPath(), ".", key), "appears twice");
    seen_ |= BitOf(part_);
    return true;
  }

  bool Null() override {
    if (depth() == 3) {
      seen_ &= ~BitOf(part_);
      return true;
    }
    return Refuse("null");
  }

  bool Text(std::string& value) override {
    if (depth() == 3 && part_ == Part::kId) {
      document().set_string_id(std::move(value));
      return true;
    }
    if (depth() == 3 && part_ == Part::kText) {
      document().set_text(std::move(value));
      return true;
    }
    return Refuse(Shown(value));
  }

  bool Integer(int64_t value) override {
    if (depth() == 3 && part_ == Part::kId) {
      document().set_int_id(value);
      return true;
    }
    return Number(static_cast<double>(value), value);
  }

  bool Number(double, const Json& exact) override {
    const std::optional<uint64_t> version = Unsigned(exact);
    if (depth() != 3 || part_ != Part::kVersion || !version.has_value()) return Refuse(Shown(exact));
    document().set_version(*version);
    return true;
  }

  bool StartList() override {
    if (depth() == 2) return true;
    if (depth() != 4 || part_ != Part::kTokens) return Skip();
    return ReadRows(document().mutable_tokens(), limits_.max_document_tokens, "limits.max_document_tokens");
  }

  bool EndList() override { return true; }

  bool StartObject() override {
    if (depth() == 1) return true;
    if (depth() == 3) {
      if (request_.documents_size() == service::kMaxUpsertDocuments) {
        return Wrong("documents", Cat("has more than ", service::kMaxUpsertDocuments, " documents"),
                     {service::kMaxUpsertDocuments, ""});
      }
      request_.add_documents();
      seen_ = 0;
      return true;
    }
    if (depth() == 4 && part_ == Part::kTokens) {
      return ReadEncoded(document().mutable_tokens(), limits_.max_document_tokens, "limits.max_document_tokens");
    }
    if (depth() != 4 || part_ != Part::kPayload) return Skip();
    payload_begin_ = position() - 1;
    return Ignore();
  }

  bool EndIgnored() override {
    document().set_payload(std::string(Since(payload_begin_)));
    return true;
  }

  bool EndObject() override {
    if (depth() == 0) return has_documents_ || Wrong("documents", "is missing");
    if ((seen_ & BitOf(Part::kId)) == 0) return Wrong(Cat(DocumentPath(), ".id"), "is missing");
    if ((seen_ & (BitOf(Part::kTokens) | BitOf(Part::kText))) != 0) return true;
    return Wrong(DocumentPath(), "has neither tokens nor text");
  }

  bool Refuse(std::string_view shown) override {
    if (depth() == 0) return Fail("the body is not a JSON object");
    if (depth() == 1) return WrongValue("documents", shown, ", not a list of documents");
    if (depth() == 2) {
      return WrongValue(Cat("documents[", request_.documents_size(), "]"), shown, ", not an object with id and tokens");
    }
    const std::string path = Cat(DocumentPath(), ".", part_name_);
    switch (part_) {
      case Part::kId:
        return WrongValue(path, shown, ", not a text or a 64-bit integer");
      case Part::kTokens:
        return WrongValue(path, shown, "; must be a list of rows of numbers, or {dtype, shape, data}");
      case Part::kText:
        return WrongValue(path, shown, ", not a text");
      case Part::kPayload:
        return WrongValue(path, shown, ", not a JSON object");
      case Part::kVersion:
        return WrongValue(path, shown, ", not a whole number from 0 to 2^64 - 1");
    }
    return false;
  }

  std::string MatrixPath() const override { return Cat(DocumentPath(), ".tokens"); }
  std::string DocumentPath() const { return Cat("documents[", request_.documents_size() - 1, "]"); }
  v1::Document& document() { return *request_.mutable_documents(request_.documents_size() - 1); }

  const service::RequestLimits& limits_;
  v1::UpsertRequest& request_;
  bool has_documents_ = false;
  Part part_ = Part::kId;
  std::string part_name_;
  uint32_t seen_ = 0;  // parts of the document
  size_t payload_begin_ = 0;
};

// Reads a body with ids and those other members that the call accepts.
template <typename Request>
class IdsEvents final : public BodyEvents {
 public:
  IdsEvents(int max_ids, const StopCheck& stop, Request* request)
      : BodyEvents(kMaxDepth, stop), max_ids_(max_ids), request_(*request) {}

 private:
  static constexpr int kMaxDepth = 72;  // The JSON of a filter has up to 66 levels.
  static constexpr bool kIsDelete = std::is_same_v<Request, v1::DeleteRequest>;

  bool Key(std::string& key) override {
    const bool is_known = key == "ids" || key == "min_sequence" ||
                          (kIsDelete ? key == "version" || key == "filter" : key == "return_tokens");
    if (!is_known) {
      return Wrong(Printable(key, kLongestQuote), kIsDelete
                                                      ? "is not a member (ids, filter, version and min_sequence are)"
                                                      : "is not a member (ids, return_tokens and min_sequence are)");
    }
    bool& seen = key == "ids"                                ? has_ids_
                 : key == "return_tokens" || key == "filter" ? has_choice_
                 : key == "version"                          ? has_version_
                                                             : has_sequence_;
    if (std::exchange(seen, true)) return Wrong(key, "appears twice");
    member_ = key;
    return true;
  }

  bool Null() override {
    // A member that is null counts as left out.
    return depth() == 1 && member_ != "ids" ? true : Refuse("null");
  }

  bool Bool(bool value) override {
    if constexpr (!kIsDelete) {
      if (depth() == 1 && member_ == "return_tokens") {
        request_.set_return_tokens(value);
        return true;
      }
    }
    return Refuse(value ? "true" : "false");
  }

  bool Text(std::string& value) override {
    if constexpr (kIsDelete) {
      if (depth() == 1 && member_ == "filter") {
        request_.set_filter_text(std::move(value));
        return true;
      }
    }
    if (depth() != 2 || request_.has_int_ids()) return Refuse(Shown(value));
    if (IsFull()) return TooMany();
    request_.mutable_string_ids()->add_ids(std::move(value));
    return true;
  }

  bool Integer(int64_t value) override {
    if (depth() != 2) return Number(static_cast<double>(value), value);
    if (request_.has_string_ids()) return Refuse(Shown(value));
    if (IsFull()) return TooMany();
    request_.mutable_int_ids()->add_ids(value);
    return true;
  }

  bool Number(double, const Json& exact) override {
    const std::optional<uint64_t> value = Unsigned(exact);
    if (depth() != 1 || !value.has_value() || (member_ != "version" && member_ != "min_sequence")) {
      return Refuse(Shown(exact));
    }
    if constexpr (kIsDelete) {
      if (member_ == "version") {
        request_.set_version(*value);
        return true;
      }
    }
    request_.set_min_sequence(*value);
    return true;
  }

  bool StartList() override { return depth() == 2 && member_ == "ids" ? true : Skip(); }
  bool EndList() override { return num_ids() > 0 || Wrong("ids", "is empty"); }
  bool StartObject() override {
    if (depth() == 1) return true;
    if (!kIsDelete || depth() != 2 || member_ != "filter") return Skip();
    filter_begin_ = position() - 1;
    return Ignore();
  }

  // Reads the filter by the parser of filters, from its object in the body.
  bool EndIgnored() override {
    if constexpr (kIsDelete) {
      const absl::StatusOr<collection::Filter> filter = collection::ParseFilterJson(Since(filter_begin_));
      if (!filter.ok()) return Wrong("filter", std::string(filter.status().message()));
      *request_.mutable_filter() = service::FilterMessageOf(*filter);
    }
    return true;
  }

  bool EndObject() override {
    if constexpr (kIsDelete) {
      if (service::HasFilter(request_)) {
        return num_ids() == 0 || Wrong("ids", "is set, and so is filter; set only one of them");
      }
      return num_ids() > 0 || Wrong("ids", "is missing");
    }
    return has_ids_ || Wrong("ids", "is missing");
  }

  bool Refuse(std::string_view shown) override {
    if (depth() == 0) return Fail("the body is not a JSON object");
    if (depth() == 2) {
      return WrongValue(Cat("ids[", num_ids(), "]"), shown, "; ids must be all texts or all 64-bit integers");
    }
    if (member_ == "ids") return WrongValue("ids", shown, ", not a list of ids");
    if (member_ == "return_tokens") return WrongValue(member_, shown, ", not true or false");
    if (member_ == "filter") {
      return WrongValue(member_, shown, ", not an object, nor a text such as lang = \"en\" and year >= 2020");
    }
    return WrongValue(member_, shown, ", not a whole number from 0 to 2^64 - 1");
  }

  std::string MatrixPath() const override { return "ids"; }  // No matrix is read.
  int num_ids() const { return request_.string_ids().ids_size() + request_.int_ids().ids_size(); }
  bool IsFull() const { return num_ids() == max_ids_; }
  bool TooMany() { return Wrong("ids", Cat("has more than ", max_ids_, " ids"), {max_ids_, ""}); }

  const int max_ids_;
  Request& request_;
  std::string member_;
  bool has_ids_ = false;
  bool has_choice_ = false;  // return_tokens or filter
  bool has_version_ = false;
  bool has_sequence_ = false;
  size_t filter_begin_ = 0;  // of its object, in the body
};

}  // namespace

absl::StatusOr<v1::UpsertRequest> ParseUpsertBody(const std::string& body, const service::RequestLimits& limits,
                                                  const StopCheck& stop) {
  v1::UpsertRequest request;
  UpsertEvents events(limits, stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

absl::StatusOr<v1::DeleteRequest> ParseDeleteBody(const std::string& body, const StopCheck& stop) {
  v1::DeleteRequest request;
  IdsEvents<v1::DeleteRequest> events(service::kMaxDeleteIds, stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

absl::StatusOr<v1::GetRequest> ParseGetBody(const std::string& body, const StopCheck& stop) {
  v1::GetRequest request;
  IdsEvents<v1::GetRequest> events(service::kMaxGetIds, stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

}  // namespace maxsim::http
