// Package shop holds what the demo's shop and its story say to each other.
package shop

import "time"

// Order is the payload of a job. An order without items is invalid for good.
type Order struct {
	ID    string `json:"id"`
	Items int    `json:"items"`
}

// Mode is how the orders service behaves.
type Mode struct {
	DelayMillis int `json:"delayMillis"` // before every answer
	Status      int `json:"status"`      // instead of 200; 0 when well
}

// Arrival is one request that reached the orders service.
type Arrival struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Attempt  int       `json:"attempt"`
	Redrive  string    `json:"redrive,omitempty"`
	Status   int       `json:"status"`
	Repeated bool      `json:"repeated,omitempty"` // the order had been taken before
}

// Report is everything the orders service saw.
type Report struct {
	Arrivals []Arrival      `json:"arrivals"`
	Taken    map[string]int `json:"taken"`
	Now      time.Time      `json:"now"`
}

// FrontStatus is how far the front is.
type FrontStatus struct {
	Accepted    int    `json:"accepted"`
	Repeated    int    `json:"repeated"` // posts that were not accepted and made again
	LastRefusal string `json:"lastRefusal,omitempty"`
	Done        bool   `json:"done"`
}
