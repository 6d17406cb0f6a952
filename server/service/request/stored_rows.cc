#include "server/service/request/stored_rows.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"
#include "kernels/quantize.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

absl::Status AppendQuantized(const v1::TokenMatrix& document, const StoredForm& form, FieldPath path,
                             std::vector<std::byte>& rows, float& scale, collection::QuantizationLoss* loss) {
  std::vector<std::byte> bytes;
  if (absl::Status status = AppendRows(document, form.rules, path, bytes); !status.ok()) return status;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const size_t begin = rows.size();
  rows.resize(begin + values.size());
  scale = QuantizeDocument(form.rotation_seed, form.rules.dim, absl::MakeSpan(values),
                           reinterpret_cast<int8_t*>(rows.data() + begin));
  if (loss != nullptr) {
    *loss = collection::LossOf(reinterpret_cast<const int8_t*>(rows.data() + begin), values.data(),
                               document.num_tokens(), form.rules.dim);
  }
  if (scale <= collection::kMaxScale) return absl::OkStatus();
  return InvalidField(
      absl::StrCat(path(), ".data"),
      absl::StrCat("holds values that reach ", scale * static_cast<float>(kMaxInt8),
                   " in the collection's rotation; their magnitude there must be at most ", kMaxAbsValue));
}

}  // namespace

StoredForm StoredFormOf(const store::Collection& collection, const RequestLimits& limits) {
  StoredForm form = StoredFormOf(collection.storage(), collection.dim(), collection.manifest().rotation_seed, limits);
  form.rules.dim_is_of_collection = !collection.name().empty();
  return form;
}

StoredForm StoredFormOf(ScalarType storage, int32_t dim, uint64_t rotation_seed, const RequestLimits& limits) {
  // Values are converted to the type of queries first, also for i8.
  return {.rules = {.storage = QueryType(storage),
                    .dim = dim,
                    .dim_is_of_collection = true,
                    .max_tokens = limits.max_document_tokens,
                    .limit_name = "limits.max_document_tokens"},
          .storage = StagedType(storage),
          .rotation_seed = rotation_seed};
}

absl::Status AppendStoredRows(const v1::TokenMatrix& document, const StoredForm& form, FieldPath path,
                              std::vector<std::byte>& rows, float& scale, collection::QuantizationLoss* loss) {
  if (form.storage == ScalarType::kI8) return AppendQuantized(document, form, path, rows, scale, loss);
  return AppendRows(document, form.rules, path, rows);
}

}  // namespace maxsim::service
