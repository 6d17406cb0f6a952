module example.com/ask

go 1.19

require example.org/maxsim/client/go v0.2.0

// The client in this clone of the repository. Your own go.mod needs such a line with the path of your clone.
replace example.org/maxsim/client/go => ../../client/go
