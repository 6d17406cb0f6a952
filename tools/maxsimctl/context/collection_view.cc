#include "tools/maxsimctl/context/collection_view.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "client/error_details.h"
#include "client/info_json.h"
#include "kernels/scalar_type.h"
#include "tools/command_line/terminal.h"

namespace maxsim::ctl {
namespace {

std::string Count(uint64_t count) { return FormatCount(static_cast<int64_t>(count)); }
std::string Bytes(uint64_t bytes) { return FormatBytes(static_cast<int64_t>(bytes)); }

// Prints, for each collection whose shards are in several places (devices, host memory, disk), how much is in which.
// Collections in one place are left out, because the column "residency" already shows it.
void PrintTiers(const google::protobuf::RepeatedPtrField<v1::CollectionInfo>& collections, const Context& context) {
  command_line::Table table({{"collection"},
                             {"tier"},
                             {"device", command_line::Align::kRight},
                             {"shards", command_line::Align::kRight},
                             {"size", command_line::Align::kRight},
                             {"memory", command_line::Align::kRight}});
  bool any = false;
  for (const v1::CollectionInfo& c : collections) {
    if (c.tiers_size() < 2) continue;
    any = true;
    for (const v1::TierInfo& tier : c.tiers()) {
      table.AddRow({command_line::WithoutControls(c.name()), command_line::WithoutControls(tier.tier()),
                    std::to_string(tier.device()), std::to_string(tier.num_shards()), Bytes(tier.token_bytes()),
                    Bytes(tier.resident_bytes())});
    }
  }
  if (!any) return;
  context.out() << '\n';
  table.Print(context.out());
}

// Prints the changes of live collections since their generation was built.
void PrintLive(const google::protobuf::RepeatedPtrField<v1::CollectionInfo>& collections, const Context& context) {
  command_line::Table table({{"live"},
                             {"sequence", command_line::Align::kRight},
                             {"compacted", command_line::Align::kRight},
                             {"changed", command_line::Align::kRight},
                             {"deleted", command_line::Align::kRight},
                             {"segments", command_line::Align::kRight},
                             {"used", command_line::Align::kRight},
                             {"memory", command_line::Align::kRight},
                             {"log", command_line::Align::kRight},
                             {"state"}});
  bool any = false;
  for (const v1::CollectionInfo& c : collections) {
    if (!c.has_live()) continue;
    any = true;
    const v1::LiveInfo& live = c.live();
    table.AddRow({command_line::WithoutControls(c.name()), std::to_string(live.sequence()),
                  std::to_string(live.compacted_sequence()), Count(live.num_changed_documents()),
                  Count(live.num_deleted_documents()), Count(live.num_segments()), Bytes(live.segment_used_bytes()),
                  Bytes(live.segment_bytes()), Bytes(live.log_bytes()),
                  !live.error().empty()  ? "NOT WRITABLE"
                  : live.is_compacting() ? "compacting"
                                         : "writable"});
  }
  if (!any) return;
  context.out() << '\n';
  table.Print(context.out());
}

}  // namespace

std::string StateName(v1::CollectionState state) {
  switch (state) {
    case v1::COLLECTION_STATE_LOADING:
      return "loading";
    case v1::COLLECTION_STATE_READY:
      return "ready";
    case v1::COLLECTION_STATE_FAILED:
      return "failed";
    case v1::COLLECTION_STATE_PARTIAL:
      return "partial";
    default:
      return "unknown";
  }
}

std::string StorageName(v1::DataType type) {
  if (type < v1::DATA_TYPE_F32 || type > v1::DATA_TYPE_RESIDUAL_8) return "unknown";
  return std::string(Name(static_cast<ScalarType>(type)));
}

std::string IdTypeName(v1::IdType type) {
  return type == v1::ID_TYPE_STRING ? "string" : type == v1::ID_TYPE_INT64 ? "int64" : "unknown";
}

Json ToJson(const v1::CollectionInfo& collection) {
  Json json = {{"name", collection.name()},
               {"state", StateName(collection.state())},
               {"path", collection.path()},
               {"generation", collection.generation()},
               {"dim", collection.dim()},
               {"storage", StorageName(collection.storage())},
               {"id_type", IdTypeName(collection.id_type())},
               {"num_documents", collection.num_documents()},
               {"num_tokens", collection.num_tokens()},
               {"num_shards", collection.num_shards()},
               {"token_bytes", collection.token_bytes()},
               {"resident_bytes", collection.resident_bytes()},
               {"residency", collection.residency()},
               {"code_planes", collection.code_planes()},
               {"has_payloads", collection.has_payloads()},
               {"loaded_at_unix_seconds", collection.loaded_at_unix_seconds()}};
  json["unavailable_documents"] = collection.unavailable_documents();
  json["tiers"] = Json::array();
  for (const v1::TierInfo& tier : collection.tiers()) {
    json["tiers"].push_back(client::TierJson<Json>(tier));
  }
  for (const v1::FieldDeclaration& field : collection.fields()) {
    json["fields"].push_back(client::FieldJson<Json>(field));
  }
  if (collection.has_partition()) {
    json["partition"] = client::PartitionJson<Json>(collection.partition());
  }
  if (!collection.error().empty()) json["error"] = collection.error();
  if (collection.has_live()) json["live"] = client::LiveJson<Json>(collection.live());
  return json;
}

void PrintCollections(const google::protobuf::RepeatedPtrField<v1::CollectionInfo>& collections,
                      const Context& context) {
  if (collections.empty()) {
    context.out() << "no collections\n";
    return;
  }
  command_line::Table table({{"collection"},
                             {"state"},
                             {"generation", command_line::Align::kRight},
                             {"documents", command_line::Align::kRight},
                             {"tokens", command_line::Align::kRight},
                             {"dim", command_line::Align::kRight},
                             {"storage"},
                             {"ids"},
                             {"shards", command_line::Align::kRight},
                             {"size", command_line::Align::kRight},
                             {"residency"},
                             {"path"}});
  for (const v1::CollectionInfo& c : collections) {
    table.AddRow({command_line::WithoutControls(c.name()), StateName(c.state()), std::to_string(c.generation()),
                  Count(c.num_documents()), Count(c.num_tokens()), std::to_string(c.dim()), StorageName(c.storage()),
                  IdTypeName(c.id_type()), std::to_string(c.num_shards()), Bytes(c.token_bytes()),
                  command_line::WithoutControls(c.residency()), command_line::WithoutControls(c.path())});
  }
  table.Print(context.out());
  PrintTiers(collections, context);
  PrintLive(collections, context);
  for (const v1::CollectionInfo& c : collections) {
    if (c.unavailable_documents() > 0) {
      context.err() << command_line::WithoutControls(c.name()) << ": " << Count(c.unavailable_documents())
                    << " documents cannot be scored: their device is lost\n";
    }
    if (!c.live().error().empty()) {
      context.err() << command_line::WithoutControls(Cat(c.name(), ": nothing can be written: ", c.live().error()))
                    << '\n';
    }
    if (!c.error().empty()) context.err() << command_line::WithoutControls(c.name() + ": " + c.error()) << '\n';
  }
}

absl::Status NameAllowedRoots(const absl::Status& status) {
  if (client::ReasonOf(status) != client::kReasonOutsideAllowedRoots) return status;
  return absl::PermissionDeniedError(
      absl::StrCat(status.message(),
                   "; add a folder that holds it to store.allowed_roots in the configuration of the "
                   "server, and start it again"));
}

std::string Summary(const v1::CollectionInfo& c) {
  return command_line::WithoutControls(Cat(c.name(), ": generation ", c.generation(), ", ", Count(c.num_documents()),
                                           " documents, ", Count(c.num_tokens()), " tokens of dimension ", c.dim(),
                                           " in ", StorageName(c.storage()), ", ", Bytes(c.token_bytes()),
                                           ", residency ", c.residency()));
}

}  // namespace maxsim::ctl
