package storetest

var concurrencyRules = rules{}
