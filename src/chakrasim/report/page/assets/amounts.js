"use strict";
// Figures for people, as the tables of the command have them (text/amounts.py), and back.
const amounts = (() => {
  const TIMES = [[3.6e12, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "us"]];
  const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  const WORTH = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, "%": 0.01, K: 1e3, M: 1e6, G: 1e9, T: 1e12,
    kJ: 1e3, MJ: 1e6, GJ: 1e9 };
  SIZES.forEach((unit, power) => { WORTH[unit] = 1024 ** power; });

  function grouped(value, decimals) {
    return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  }

  function number(value) {
    const size = Math.abs(value);
    if (size > 0 && size < 0.1) return String(Number(value.toPrecision(3)));
    const text = grouped(value, size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }

  function time(ns) {
    for (const [worth, unit] of TIMES) if (Math.abs(ns) >= worth) return number(ns / worth) + " " + unit;
    return number(ns) + " ns";
  }

  function size(count) {
    let power = 0;
    while (Math.abs(count) >= 1024 && power < SIZES.length - 1) { count /= 1024; power += 1; }
    return number(count) + " " + SIZES[power];
  }

  function shown(value, unit) {
    if (value === null || value === undefined) return "-";
    if (unit === "ns") return time(value);
    if (unit === "microseconds") return time(1e3 * value);
    if (unit === "seconds") return time(1e9 * value);
    if (unit === "bytes") return size(value);
    if (unit === "share") return grouped(100 * value, 1) + " %";
    return unit === "count" ? number(value) : number(value) + " " + unit;
  }

  // The figure and, where that is shortened, all of its digits.
  function exact(value, unit) {
    const text = shown(value, unit);
    return value !== null && (unit === "ns" || unit === "bytes") && value >= 1000
      ? text + " (" + value.toLocaleString("en-US") + (unit === "ns" ? " ns)" : " B)") : text;
  }

  // What a cell of a table is worth for sorting: its first number times its unit; null for text.
  function worth(text) {
    const match = /^\s*([+-]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)/.exec(text);
    if (!match) return null;
    const own = Number(match[1].replace(/,/g, ""));
    return Number.isNaN(own) ? null : own * (Object.hasOwn(WORTH, match[2]) ? WORTH[match[2]] : 1);
  }

  return { shown, exact, worth, time };
})();
