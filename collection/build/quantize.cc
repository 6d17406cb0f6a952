#include "collection/build/quantize.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/build/document_input.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"

namespace maxsim::collection {

absl::StatusOr<Manifest> QuantizeCollection(const QuantizeOptions& options, const BuildObserver& observer) {
  std::error_code ignored;
  if (std::filesystem::equivalent(options.source, options.target, ignored)) {
    return absl::FailedPreconditionError(
        Cat(options.source, ": the target is the source; the i8 collection needs a folder of its own"));
  }
  absl::StatusOr<Manifest> source = ReadManifest(options.source);
  if (!source.ok()) return source.status();
  if (source->storage == ScalarType::kI8) {
    return absl::FailedPreconditionError(Cat(options.source, ": is stored as i8 already"));
  }
  absl::StatusOr<std::unique_ptr<DocumentInput>> input = OpenCollectionInput(options.source, *source);
  if (!input.ok()) return input.status();
  if (source->num_documents == 0 && !source->partition.has_value()) {
    return Invalid(options.source, ": there is no document to build from");
  }
  IdCollector ids(source->id_type, source->num_documents, observer);
  if (absl::Status status = (*input)->AddIds(ids); !status.ok()) return status;
  absl::StatusOr<std::vector<int32_t>> payload_sizes = (*input)->ReadPayloadSizes();
  if (!payload_sizes.ok()) return payload_sizes.status();
  std::unique_ptr<Catalog> catalog = ids.TakeCatalog();
  if (catalog == nullptr) catalog = std::make_unique<Catalog>(source->id_type);  // of a partition without documents
  catalog->positions = (*input)->TakePositions();
  catalog->payload_sizes = *std::move(payload_sizes);
  catalog->lengths = (*input)->lengths();
  absl::StatusOr<std::unique_ptr<TokenSource>> tokens = (*input)->MakeTokens();
  if (!tokens.ok()) return tokens.status();
  const std::unique_ptr<PayloadSource> payloads = source->has_payloads ? (*input)->MakePayloads() : nullptr;
  BuildOptions build;
  build.folder = options.target;
  build.name = options.name.empty() ? source->name : options.name;
  build.storage = ScalarType::kI8;
  build.rotation_seed = options.rotation_seed;
  build.num_threads = options.num_threads;
  build.generation = source->generation;
  build.allow_other_shape = options.allow_other_shape;
  build.refuse_lossy = options.refuse_lossy;
  build.max_shard_bytes = options.max_shard_bytes;
  build.created_by = options.created_by;
  build.encoder = source->encoder;
  build.codes.planes = options.codes.value_or(source->codes.has_value() ? source->codes->planes : 0);
  build.fields = source->fields;
  const PartitionFolder target{options.target, source->slots()};
  absl::StatusOr<std::vector<Manifest>> built =
      BuildPartitions(build, absl::MakeConstSpan(&target, 1), *catalog, **tokens, payloads.get(), observer);
  if (!built.ok()) return built.status();
  return std::move(built->front());
}

}  // namespace maxsim::collection
