package vnic

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The table against maps, under learning, moving, ageing and its limits.
func TestStationsAgainstModel(t *testing.T) {
	type seen struct {
		lid opa.LID
		at  frame.Time
	}
	rapid.Check(t, func(rt *rapid.T) {
		var table stations
		const most, perLID, age = 24, 9, 100 * time.Nanosecond
		table.limit(most, perLID, age)
		model := map[stationKey]seen{}
		behind := func(lid opa.LID) (n int) {
			for _, s := range model {
				if s.lid == lid && lid != hostSide {
					n++
				}
			}
			return n
		}
		now := frame.Time(0)
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			now += frame.Time(rapid.IntRange(0, 20).Draw(rt, "wait"))
			k := keyOf(ether.Addr{2, 0, 0, 0, 0, byte(rapid.IntRange(0, 39).Draw(rt, "station"))}, uint16(rapid.IntRange(0, 1).Draw(rt, "VLAN")))
			lid := opa.LID(rapid.IntRange(0, 3).Draw(rt, "LID"))
			switch old, there := model[k]; rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				table.expire(now)
				for k, s := range model {
					if now.Sub(s.at) > age {
						delete(model, k)
					}
				}
			case 1, 2:
				got, ok := table.find(k, now)
				if want := there && now.Sub(old.at) <= age; ok != want || ok && got != old.lid {
					rt.Fatalf("find: %v %v, want %v %v", got, ok, old, want)
				}
			default:
				want := unchanged
				switch {
				case there && old.lid != lid && behind(lid) >= perLID, !there && (len(model) >= most || behind(lid) >= perLID):
					want = refused
				case there && old.lid != lid:
					want = moved
				case !there:
					want = learned
				}
				if got := table.learn(k, lid, now); got != want {
					rt.Fatalf("learn: %v, want %v", got, want)
				}
				if want != refused {
					model[k] = seen{lid, now}
				}
			}
			if table.n != len(model) {
				rt.Fatalf("%d stations, want %d", table.n, len(model))
			}
		}
	})
}
