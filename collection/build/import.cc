#include "collection/build/import.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/document_input.h"
#include "collection/build/sources/document_lines.h"
#include "collection/build/sources/joined_sources.h"
#include "collection/fields/field_reader.h"

namespace maxsim::collection {
namespace {

absl::StatusOr<std::unique_ptr<DocumentInput>> OpenInput(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return OpenArchiveInput(path);
  absl::StatusOr<Manifest> manifest = ReadManifest(path);
  if (absl::IsNotFound(manifest.status())) {
    return Invalid(path, ": a folder without a collection: it holds no ", kManifestFileName);
  }
  if (!manifest.ok()) return manifest.status();
  return OpenCollectionInput(path, *std::move(manifest));
}

// Checks that the fields of a document can be read. The error names the document's id.
absl::Status CheckFieldValues(const DocumentLine& line, FieldReader& fields) {
  const absl::Status status = fields.Read(line.payload).status();
  if (status.ok()) return status;
  return Prefix(Cat("id ", line.id_type == IdType::kInt64 ? Cat(line.int_id) : Quote(line.string_id), ": "), status);
}

// Carries out one call of OpenImport, step by step.
class Importer {
 public:
  Importer(const ImportOptions& options, const BuildObserver& observer) : options_(options), observer_(observer) {}

  absl::StatusOr<Import> Open();

 private:
  absl::Status OpenInputs();
  absl::Status ReadIds();
  absl::Status ReadLines(IdCollector& ids);
  absl::Status ReadPayloadSizes();
  absl::Status MakeTokens();
  void TakeWhatInputsAgreeOn();

  const ImportOptions& options_;
  const BuildObserver& observer_;
  std::vector<std::unique_ptr<DocumentInput>> inputs_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> payload_sizes_of_lines_;
  Import import_;
};

absl::Status Importer::OpenInputs() {
  if (options_.inputs.empty()) {
    absl::StatusOr<std::unique_ptr<DocumentInput>> input =
        OpenNpyInput(options_.tokens, options_.lengths, options_.scales);
    if (!input.ok()) return input.status();
    inputs_.push_back(*std::move(input));
  }
  for (const std::string& path : options_.inputs) {
    absl::StatusOr<std::unique_ptr<DocumentInput>> input = OpenInput(path);
    if (!input.ok()) return input.status();
    inputs_.push_back(*std::move(input));
  }
  const DocumentInput& first = *inputs_.front();
  for (const std::unique_ptr<DocumentInput>& input : inputs_) {
    if (input->dim() != first.dim()) {
      return Invalid(input->path(), ": ", input->dim(), " columns, but ", first.path(), " has ", first.dim());
    }
    lengths_.insert(lengths_.end(), input->lengths().begin(), input->lengths().end());
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadIds() {
  const auto num_documents = static_cast<int64_t>(lengths_.size());
  IdCollector ids(options_.id_type, num_documents, observer_);
  const DocumentInput& first = *inputs_.front();
  for (const std::unique_ptr<DocumentInput>& input : inputs_) {
    if (!options_.ids.empty() && input->HasIds()) {
      return Invalid("ids are given twice: in ", input->path(), " and in ", options_.ids, "; leave one out");
    }
    if (input->HasIds() != first.HasIds()) {
      const bool first_has = first.HasIds();
      return Invalid((first_has ? *input : first).path(), " holds no ids, but ", (first_has ? first : *input).path(),
                     " does; give ids in all inputs or in none");
    }
  }
  if (!options_.ids.empty()) {
    if (absl::Status status = ReadLines(ids); !status.ok()) return status;
  } else if (first.HasIds()) {
    for (const std::unique_ptr<DocumentInput>& input : inputs_) {
      if (absl::Status status = input->AddIds(ids); !status.ok()) return status;
    }
  } else {
    for (int64_t id = 0; id < num_documents; ++id) {
      if (absl::Status status = ids.Add(id); !status.ok()) return status;
    }
  }
  import_.catalog = ids.TakeCatalog();
  if (import_.catalog == nullptr) return Invalid("there is no document to build from");
  return absl::OkStatus();
}

absl::Status Importer::ReadLines(IdCollector& ids) {
  absl::StatusOr<InputFile> opened = InputFile::Open(options_.ids);
  if (!opened.ok()) return opened.status();
  auto file = std::make_shared<const InputFile>(*std::move(opened));
  DocumentLineReader reader(file, options_.id_type);
  const auto num_documents = static_cast<int64_t>(lengths_.size());
  std::vector<int32_t> payload_sizes;
  bool has_payloads = false;
  std::optional<FieldReader> fields;
  if (!options_.fields.empty()) fields.emplace(options_.fields);
  while (true) {
    absl::StatusOr<std::optional<DocumentLine>> line = reader.Next();
    if (!line.ok()) return line.status();
    const auto count = static_cast<int64_t>(payload_sizes.size());
    if (!line->has_value()) {
      if (count == num_documents) break;
      return Invalid(options_.ids, ": ", count, " documents, but the lengths are those of ", num_documents);
    }
    if (count == num_documents) {
      return Invalid(reader.Where(), "more documents than the ", num_documents, " that have a length");
    }
    // There are no empty lines between documents, so document n is on line n + 1.
    const absl::Status added =
        *reader.id_type() == IdType::kInt64 ? ids.Add((*line)->int_id) : ids.Add(std::string_view((*line)->string_id));
    if (!added.ok()) return AtPlace(reader.Where(), added);
    if (fields.has_value()) {
      if (absl::Status status = CheckFieldValues(**line, *fields); !status.ok()) return Prefix(reader.Where(), status);
    }
    payload_sizes.push_back(static_cast<int32_t>((*line)->payload.size()));
    has_payloads |= !(*line)->payload.empty();
  }
  if (has_payloads) {
    payload_sizes_of_lines_ = std::move(payload_sizes);
    import_.payloads = ReadLinePayloads(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadPayloadSizes() {
  // If there is a file of ids, all payloads are taken from it.
  if (!options_.ids.empty()) {
    import_.catalog->payload_sizes = std::move(payload_sizes_of_lines_);
    return absl::OkStatus();
  }
  std::vector<PayloadPart> parts;
  std::vector<int32_t> all;
  bool has_payloads = false;
  for (const std::unique_ptr<DocumentInput>& input : inputs_) {
    absl::StatusOr<std::vector<int32_t>> sizes = input->ReadPayloadSizes();
    if (!sizes.ok()) return sizes.status();
    PayloadPart part{.num_documents = static_cast<int64_t>(input->lengths().size()), .source = nullptr};
    if (!sizes->empty()) {
      has_payloads = true;
      part.source = input->MakePayloads();
    }
    sizes->resize(input->lengths().size(), 0);
    all.insert(all.end(), sizes->begin(), sizes->end());
    parts.push_back(std::move(part));
  }
  if (!has_payloads) return absl::OkStatus();
  import_.catalog->payload_sizes = std::move(all);
  import_.payloads = JoinPayloads(std::move(parts));
  return absl::OkStatus();
}

absl::Status Importer::MakeTokens() {
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (const std::unique_ptr<DocumentInput>& input : inputs_) {
    absl::StatusOr<std::unique_ptr<TokenSource>> source = input->MakeTokens();
    if (!source.ok()) return source.status();
    sources.push_back(*std::move(source));
  }
  import_.tokens = JoinTokens(std::move(sources));
  return absl::OkStatus();
}

void Importer::TakeWhatInputsAgreeOn() {
  import_.storage = inputs_.front()->storage();
  import_.encoder = inputs_.front()->encoder();
  const DocumentInput* named = nullptr;  // the first input with an encoder
  for (const std::unique_ptr<DocumentInput>& input : inputs_) {
    if (input->storage() != import_.storage) import_.storage.reset();
    const std::optional<EncoderIdentity> encoder = input->encoder();
    if (encoder != import_.encoder) import_.encoder.reset();
    if (!encoder.has_value()) continue;
    if (named == nullptr) named = input.get();
    if (*encoder == *named->encoder()) continue;
    import_.one_encoder = absl::FailedPreconditionError(
        Cat(named->path(), " was encoded by ", DescribeEncoder(*named->encoder()), ", but ", input->path(), " by ",
            DescribeEncoder(*encoder), "; if their vectors go together, name one encoder for all with --encoder"));
  }
}

absl::StatusOr<Import> Importer::Open() {
  if (absl::Status status = CheckImportOptions(options_); !status.ok()) return status;
  if (absl::Status status = OpenInputs(); !status.ok()) return status;
  if (absl::Status status = ReadIds(); !status.ok()) return status;
  if (absl::Status status = ReadPayloadSizes(); !status.ok()) return status;
  TakeWhatInputsAgreeOn();
  if (absl::Status status = MakeTokens(); !status.ok()) return status;
  import_.catalog->lengths = std::move(lengths_);
  return std::move(import_);
}

}  // namespace

absl::Status CheckImportOptions(const ImportOptions& options) {
  if (options.inputs.empty() ? options.tokens.empty() || options.lengths.empty()
                             : !options.tokens.empty() || !options.lengths.empty()) {
    return Invalid("give --input, or --tokens together with --lengths");
  }
  if (!options.inputs.empty() && !options.scales.empty()) {
    return Invalid("--scales goes with --tokens; an archive holds \"scales\" itself");
  }
  return absl::OkStatus();
}

absl::StatusOr<Import> OpenImport(const ImportOptions& options, const BuildObserver& observer) {
  return Importer(options, observer).Open();
}

}  // namespace maxsim::collection
