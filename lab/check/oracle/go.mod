module tapir/lab/check/oracle

go 1.26.3

require (
	github.com/facebook/time v0.0.0-20260822211804-f81aedc1c1e3
	github.com/google/gopacket v1.1.19
	gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
	tapir v0.0.0
)

require (
	github.com/agext/levenshtein v1.2.3 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/btree v1.1.2 // indirect
	github.com/songgao/water v0.0.0-20200317203138-2b4b6d7c09d8 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace tapir => ../../..
