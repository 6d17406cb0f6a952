#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collection/field.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

struct CreateOptions {
  std::string name, path, storage = "f16", id_type = "string", residency = "auto";
  uint32_t dim = 0, codes = 0;
  bool replicate = false, code_factors = false;
  std::vector<collection::Field> fields;
};

absl::Status RunCreate(const CreateOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::CreateCollectionRequest request;
  request.set_name(options.name);
  request.set_path(options.path);
  request.set_dim(options.dim);
  request.set_storage(static_cast<v1::DataType>(*ScalarTypeFromName(options.storage)));
  request.set_id_type(options.id_type == "int64" ? v1::ID_TYPE_INT64 : v1::ID_TYPE_STRING);
  request.set_residency(options.residency);
  request.set_replicate(options.replicate);
  request.set_code_planes(options.codes);
  request.set_code_factors(options.code_factors);
  for (const collection::Field& field : options.fields) {
    v1::FieldDeclaration& declared = *request.add_fields();
    declared.set_name(field.name);
    declared.set_kind(static_cast<v1::FieldKind>(1 + static_cast<int>(field.kind)));
    declared.set_path(field.path);
  }
  const absl::StatusOr<v1::CreateCollectionResponse> response = (*client)->CreateCollection(request);
  if (!response.ok()) return NameAllowedRoots(context.AddAdminAdvice(response.status()));
  if (context.options.json) {
    context.Print(ToJson(response->collection()));
  } else {
    context.out() << "created " << Summary(response->collection()) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddCreate(CLI::App& app, Context& context) {
  auto options = std::make_shared<CreateOptions>();
  CLI::App* command = app.add_subcommand("create", "Make an empty live collection and serve it");
  command->add_option("name", options->name, "Name to serve it under")->required()->type_name("NAME");
  command->add_option("--dim", options->dim, "Values of one token vector")
      ->required()
      ->check(CLI::Range(uint32_t{kMinDim}, uint32_t{kMaxDim}))
      ->type_name("D");
  command->add_option("--storage", options->storage, "How values are stored: f16, bf16, f32 or i8")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "i8"}))
      ->capture_default_str()
      ->type_name("TYPE");
  auto* const codes = command
                          ->add_option("--codes", options->codes,
                                       "Planes of the codes that are stored beside the vectors: 1, 2 or 4; 0 for none")
                          ->check(CLI::IsMember({0, 1, 2, 4}))
                          ->capture_default_str()
                          ->type_name("N");
  command
      ->add_flag("--code-factors", options->code_factors,
                 "With --codes: store the length of each vector, for models whose vectors differ in length")
      ->needs(codes);
  command
      ->add_option_function<std::string>(
          "--fields",
          [options](const std::string& text) {
            absl::StatusOr<std::vector<collection::Field>> fields = collection::ParseFields(text);
            if (!fields.ok()) throw CLI::ValidationError("--fields", std::string(fields.status().message()));
            options->fields = *std::move(fields);
          },
          "Values of payloads that requests can filter by, such as lang:keyword=meta.lang,year:integer; kinds are "
          "keyword, keywords, integer, number, boolean and time")
      ->type_name("NAME:KIND[=PATH],...");
  command->add_option("--id-type", options->id_type, "What its ids are: string or int64")
      ->check(CLI::IsMember({"string", "int64"}))
      ->capture_default_str()
      ->type_name("TYPE");
  command
      ->add_option("--path", options->path,
                   "Folder on the server's machine, which is made; NAME under its only allowed root by default")
      ->type_name("PATH");
  command->add_option("--residency", options->residency, "Where its tokens are held: auto, gpu, host or disk")
      ->capture_default_str()
      ->type_name("TIER");
  command->add_flag("--replicate", options->replicate, "Copy it to every device of the server");
  command->footer(
      "The folder lies under store.allowed_roots of the server, which is empty by default: then nothing can be made.\n"
      "After a restart the server serves the collection again, until maxsimctl unload NAME; with\n"
      "live.restore_created: false it does not.\n\n"
      "Example: maxsimctl create notes --dim 128 && maxsimctl upsert notes --documents notes.jsonl");
  command->callback([options, &context] { context.result = RunCreate(*options, context); });
}

}  // namespace maxsim::ctl
