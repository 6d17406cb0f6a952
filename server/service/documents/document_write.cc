#include "server/service/documents/document_write.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "collection/document_line.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"
#include "server/service/request/blank_text.h"

namespace maxsim::service {
namespace {

absl::Status CheckStringId(const std::string& id, FieldPath path) {
  if (id.empty() || id.size() > static_cast<size_t>(kMaxIdBytes)) {
    return InvalidField(path(), Cat("has ", id.size(), " bytes; must have 1 to ", kMaxIdBytes),
                        {kMaxIdBytes, id.size()});
  }
  return IsUtf8(id) ? absl::OkStatus() : InvalidField(path(), "is not UTF-8");
}

absl::Status CheckIdType(collection::IdType sent, const DocumentRules& rules, FieldPath path) {
  if (sent == rules.id_type) return absl::OkStatus();
  return InvalidField(path(), Cat("the ids of collection ", rules.collection, " are of type ",
                                  std::string(collection::Name(rules.id_type))));
}

std::string IdText(const std::string& id) { return Quote(id); }
std::string IdText(int64_t id) { return Cat(id); }

template <typename Id>
absl::Status CheckSlot(const Id& id, const DocumentRules& rules, FieldPath path) {
  if (rules.slots.is_whole()) return absl::OkStatus();
  const int32_t slot = collection::SlotOf(id);
  if (rules.slots.contains(slot)) return absl::OkStatus();
  return client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonOtherSlots, path(),
                            Cat("is ", IdText(id), ", of slot ", slot, ", but the part of collection ",
                                rules.collection, " that is here has ", collection::DescribeSlots(rules.slots)));
}

absl::Status CheckId(const v1::Document& document, const DocumentRules& rules, FieldPath path) {
  switch (document.id_case()) {
    case v1::Document::kStringId: {
      const auto id_path = [&] { return Cat(path(), ".string_id"); };
      absl::Status status = CheckIdType(collection::IdType::kString, rules, id_path);
      if (status.ok()) status = CheckStringId(document.string_id(), id_path);
      return status.ok() ? CheckSlot(document.string_id(), rules, id_path) : status;
    }
    case v1::Document::kIntId: {
      const auto id_path = [&] { return Cat(path(), ".int_id"); };
      const absl::Status status = CheckIdType(collection::IdType::kInt64, rules, id_path);
      return status.ok() ? CheckSlot(document.int_id(), rules, id_path) : status;
    }
    case v1::Document::ID_NOT_SET:
      break;
  }
  return InvalidField(path(), "has neither string_id nor int_id");
}

absl::Status CheckTokensOrText(const v1::Document& document, const DocumentRules& rules, FieldPath path) {
  if (document.text().empty()) {
    if (!document.has_tokens()) return InvalidField(path(), "has neither tokens nor text");
    return CheckShape(document.tokens(), rules.form.rules, [&] { return Cat(path(), ".tokens"); });
  }
  if (document.has_tokens()) return InvalidField(path(), "has tokens and text; must have only one of them");
  if (!IsUtf8(document.text())) return InvalidField(Cat(path(), ".text"), "is not UTF-8");
  // No encoder returns vectors for a text that is only white space.
  if (IsBlank(document.text())) return InvalidField(Cat(path(), ".text"), "is empty");
  return absl::OkStatus();
}

std::string IdText(const v1::Document& document) {
  return document.has_string_id() ? IdText(document.string_id()) : IdText(document.int_id());
}

absl::Status CheckPayload(const v1::Document& document, const DocumentRules& rules, collection::FieldReader& reader,
                          FieldPath path) {
  const std::string& payload = document.payload();
  if (payload.empty()) return absl::OkStatus();
  if (payload.size() > static_cast<size_t>(collection::kMaxPayloadBytes)) {
    return InvalidField(path(), Cat("has ", payload.size(), " bytes; must have at most ", collection::kMaxPayloadBytes),
                        {collection::kMaxPayloadBytes, payload.size()});
  }
  absl::Status status = collection::CheckNewPayload(TrimmedPayload(payload));
  if (!status.ok()) {
    return InvalidField(path(), Cat("is not a JSON object in UTF-8: ", std::string(status.message())));
  }
  if (rules.fields.empty()) return absl::OkStatus();
  status = reader.Read(TrimmedPayload(payload)).status();
  if (status.ok()) return status;
  return InvalidField(path(), Cat("of id ", IdText(document), ": ", std::string(status.message())));
}

absl::Status CheckLoss(const collection::QuantizationLoss& loss, const DocumentRules& rules, FieldPath path) {
  if (!rules.refuse_lossy_tokens || loss.num_tokens() == 0) return absl::OkStatus();
  return InvalidField(Cat(path(), ".tokens"),
                      Cat("i8 keeps too little of ", Describe(loss),
                          ", whose largest value is far above those of its other tokens (live.refuse_lossy_tokens)"));
}

absl::Status CheckCount(int count, int max_ids, const char* field) {
  if (count >= 1 && count <= max_ids) return absl::OkStatus();
  return InvalidField(field, Cat("has ", count, " ids; must have 1 to ", max_ids), {max_ids, count});
}

}  // namespace

DocumentRules DocumentRulesOf(const store::Collection& collection, const RequestLimits& limits) {
  return {.collection = collection.name(),
          .id_type = collection.manifest().id_type,
          .slots = collection.manifest().slots(),
          .form = StoredFormOf(collection, limits),
          .refuse_lossy_tokens = limits.refuse_lossy_tokens,
          .fields = collection.manifest().fields};
}

absl::Status CheckDocument(const v1::Document& document, const DocumentRules& rules, collection::FieldReader& reader,
                           FieldPath path) {
  absl::Status status = CheckId(document, rules, path);
  if (status.ok()) status = CheckTokensOrText(document, rules, path);
  if (status.ok()) status = CheckPayload(document, rules, reader, [&] { return Cat(path(), ".payload"); });
  return status;
}

std::string_view TrimmedPayload(std::string_view payload) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = std::min(payload.find_first_not_of(kSpace), payload.size());
  payload.remove_prefix(begin);
  return payload.substr(0, payload.find_last_not_of(kSpace) + 1);
}

std::string DocumentPath(int idx) { return Cat("documents[", idx, "]"); }

absl::Status CheckDocuments(const v1::UpsertRequest& request, const DocumentRules& rules) {
  const int count = request.documents_size();
  if (count < 1 || count > kMaxUpsertDocuments) {
    return InvalidField("documents", Cat("has ", count, " documents; must have 1 to ", kMaxUpsertDocuments),
                        {kMaxUpsertDocuments, count});
  }
  collection::FieldReader reader(rules.fields);
  for (int i = 0; i < count; ++i) {
    absl::Status status = CheckDocument(request.documents(i), rules, reader, [i] { return DocumentPath(i); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckValues(const v1::Document& document, const DocumentRules& rules, FieldPath path) {
  if (!document.has_tokens()) return absl::OkStatus();
  store::Write unused;
  collection::QuantizationLoss loss;
  absl::Status status = AppendStoredRows(
      document.tokens(), rules.form, [&] { return Cat(path(), ".tokens"); }, unused.rows, unused.scale, &loss);
  return status.ok() ? CheckLoss(loss, rules, path) : status;
}

absl::StatusOr<store::Write> ToWrite(v1::Document& document, const DocumentRules& rules, FieldPath path,
                                     collection::QuantizationLoss& loss) {
  store::Write write;
  const auto tokens_path = [&] { return Cat(path(), ".tokens"); };
  // The encoder has made this matrix of a text: its shape is unchecked.
  absl::Status status = CheckShape(document.tokens(), rules.form.rules, tokens_path);
  if (!status.ok()) return status;
  write.rows.reserve(size_t{document.tokens().num_tokens()} * document.tokens().dim() * SizeOf(rules.form.storage));
  collection::QuantizationLoss found;
  status = AppendStoredRows(document.tokens(), rules.form, tokens_path, write.rows, write.scale, &found);
  if (status.ok()) status = CheckLoss(found, rules, path);
  if (!status.ok()) return status;
  loss.Add(found);
  write.num_tokens = static_cast<int32_t>(document.tokens().num_tokens());
  document.clear_tokens();
  write.kind = collection::LogRecord::Kind::kUpsert;
  write.version = document.version();
  write.int_id = document.int_id();
  if (document.has_string_id()) write.string_id = std::move(*document.mutable_string_id());
  const std::string_view payload = TrimmedPayload(document.payload());
  if (payload.size() == document.payload().size()) {
    write.payload = std::move(*document.mutable_payload());
  } else {
    write.payload = std::string(payload);
  }
  return write;
}

absl::Status CheckIds(const v1::StringIds& ids, const DocumentRules& rules, int max_ids) {
  absl::Status status = CheckIdType(collection::IdType::kString, rules, [] { return std::string("string_ids"); });
  if (status.ok()) status = CheckCount(ids.ids_size(), max_ids, "string_ids.ids");
  for (int i = 0; i < ids.ids_size() && status.ok(); ++i) {
    status = CheckStringId(ids.ids(i), [i] { return Cat("string_ids.ids[", i, "]"); });
  }
  return status;
}

absl::Status CheckIds(const v1::IntIds& ids, const DocumentRules& rules, int max_ids) {
  absl::Status status = CheckIdType(collection::IdType::kInt64, rules, [] { return std::string("int_ids"); });
  if (status.ok()) status = CheckCount(ids.ids_size(), max_ids, "int_ids.ids");
  return status;
}

absl::Status CheckReadId(const std::string& id, const DocumentRules& rules, const char* field) {
  const auto path = [field] { return std::string(field); };
  absl::Status status = CheckIdType(collection::IdType::kString, rules, path);
  return status.ok() ? CheckStringId(id, path) : status;
}

absl::Status CheckReadId(int64_t, const DocumentRules& rules, const char* field) {
  return CheckIdType(collection::IdType::kInt64, rules, [field] { return std::string(field); });
}

absl::Status CheckSlots(const v1::StringIds& ids, const DocumentRules& rules) {
  for (int i = 0; i < ids.ids_size(); ++i) {
    absl::Status status = CheckSlot(ids.ids(i), rules, [i] { return Cat("string_ids.ids[", i, "]"); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckSlots(const v1::IntIds& ids, const DocumentRules& rules) {
  for (int i = 0; i < ids.ids_size(); ++i) {
    const int64_t id = ids.ids(i);
    absl::Status status = CheckSlot(id, rules, [i] { return Cat("int_ids.ids[", i, "]"); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace maxsim::service
