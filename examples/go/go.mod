module example.com/ask

go 1.19

require (
	google.golang.org/grpc v1.62.2
	google.golang.org/protobuf v1.33.0
)
