"use strict";
// Charts: a part of the page to options of ECharts. Texts go to canvases only, tooltips included, never into HTML.
const charts = (() => {
  const PALETTE = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#72b7b2", "#eeca3b", "#9d755d", "#ff9da6", "#bab0ac"];
  const LIGHT = ["#fff6df", "#fdd28a", "#f58518", "#c2381f", "#7a1020"];
  const DARK = ["#2a2018", "#6b3a12", "#bd6212", "#f8a945", "#fff0c9"];

  function look() {
    const style = getComputedStyle(document.documentElement);
    const own = name => style.getPropertyValue(name).trim();
    return { ink: own("--ink"), dim: own("--dim"), line: own("--line"), card: own("--card"), accent: own("--accent"),
      dark: matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches };
  }

  function cut(text, most) { return text.length > most ? text.slice(0, most - 1) + "\u2026" : text; }

  function base(colours, width) {
    return {
      animation: false, aria: { enabled: true }, backgroundColor: "transparent", color: PALETTE,
      textStyle: { color: colours.ink, fontFamily: "system-ui, DejaVu Sans, sans-serif" },
      tooltip: { renderMode: "richText", confine: true, backgroundColor: colours.card, borderColor: colours.line,
        textStyle: { color: colours.ink, fontSize: 12, width: Math.min(width - 40, 420), overflow: "break" } },
      legend: { type: "scroll", top: 0, left: 0, right: 0, textStyle: { color: colours.ink }, pageTextStyle: { color: colours.ink },
        pageIconColor: colours.accent, pageIconInactiveColor: colours.line },
    };
  }

  function axis(colours, more) {
    return { axisLabel: { color: colours.dim, hideOverlap: true, alignMaxLabel: "right", ...more.axisLabel }, axisLine: { lineStyle: { color: colours.line } },
      splitLine: { lineStyle: { color: colours.line } }, nameTextStyle: { color: colours.dim }, ...more.rest };
  }

  function slider(colours, more) {
    return { type: "slider", borderColor: colours.line, textStyle: { color: colours.dim }, brushSelect: false, ...more };
  }

  function left(texts, width) {
    const longest = Math.max(...texts.map(text => text.length), 1);
    return Math.round(Math.max(Math.min(longest * 7.2 + 22, width * 0.32, 330), 52));
  }

  function bars(part, colours, width) {
    const unit = part.series.length ? part.series[0].unit : "count";
    const space = left(part.labels, width);
    const many = part.labels.length > 24;
    return {
      ...base(colours, width),
      tooltip: { ...base(colours, width).tooltip, trigger: "axis", axisPointer: { type: "shadow" },
        formatter: points => [part.labels[points[0].dataIndex], ...points.filter(p => p.value)
          .map(p => p.seriesName + ": " + amounts.exact(p.value, unit))].join("\n") },
      grid: { left: space, right: many ? 50 : 20, top: 34, bottom: 30, outerBoundsMode: "none" },
      xAxis: axis(colours, { axisLabel: { formatter: v => amounts.shown(v, unit) }, rest: { type: "value", splitNumber: width < 600 ? 3 : 6, max: "dataMax" } }),
      yAxis: axis(colours, { axisLabel: { color: colours.ink, interval: 0, width: space - 12, overflow: "truncate", hideOverlap: !many },
        rest: { type: "category", inverse: true, data: part.labels } }),
      dataZoom: many ? [slider(colours, { yAxisIndex: 0, startValue: 0, endValue: 23, width: 18, right: 6, showDetail: false }),
        { type: "inside", yAxisIndex: 0, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }] : [],
      series: part.series.map(one => ({ type: "bar", stack: "all", name: one.name, data: one.values, barMaxWidth: 26,
        itemStyle: one.colour ? { color: one.colour } : {} })),
    };
  }
  bars.height = part => 80 + 30 * Math.min(Math.max(part.labels.length, 1), 24);

  function heat(part, colours, width, state) {
    const own = part.measures[state.measure || 0];
    const known = own.values.filter(v => v !== null);
    const low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    const rows = Math.ceil(own.values.length / part.columns);
    const name = i => part.block > 1
      ? part.each + "s " + i * part.block + " to " + ((i + 1) * part.block - 1) + " (the most of them)" : part.each + " " + i;
    const count = n => Array.from({ length: n }, (_, i) => i);
    return {
      ...base(colours, width), legend: { show: false },
      tooltip: { ...base(colours, width).tooltip, formatter: p => name(p.value[3]) + "\n" + own.name + ": " + amounts.exact(p.value[2], own.unit) },
      grid: { left: 56, right: 12, top: 8, bottom: 96, outerBoundsMode: "none" },
      xAxis: axis(colours, { axisLabel: {}, rest: { type: "category", name: "+", nameGap: 6, data: count(part.columns), splitArea: { show: false } } }),
      yAxis: axis(colours, { axisLabel: {}, rest: { type: "category", inverse: true, data: count(rows).map(r => String(r * part.columns * part.block)) } }),
      visualMap: { dimension: 2, min: low === high ? Math.min(0, low) : low, max: low === high ? Math.max(high, 1) : high, calculable: low !== high, orient: "horizontal",
        left: "center", bottom: 14, itemWidth: 14, itemHeight: Math.min(260, width - 220), textStyle: { color: colours.dim }, formatter: v => amounts.shown(v, own.unit), inRange: { color: colours.dark ? DARK : LIGHT } },
      series: [{ type: "heatmap", progressive: 0, itemStyle: { borderColor: colours.card, borderWidth: width / part.columns > 8 ? 1 : 0 },
        data: own.values.map((v, i) => [i % part.columns, Math.floor(i / part.columns), v, i]).filter(p => p[2] !== null) }],
    };
  }
  heat.height = (part, width) => {
    const rows = Math.ceil(part.measures[0].values.length / part.columns);
    return 120 + Math.round(rows * Math.max(8, Math.min(24, (width - 70) / part.columns)));
  };

  function span(params, api) {
    const lane = api.value(0), from = api.coord([api.value(1), lane]), to = api.coord([api.value(2), lane]);
    const high = api.size([0, 1])[1] * 0.72, area = params.coordSys;
    const shape = echarts.graphic.clipRectByRect(
      { x: from[0], y: from[1] - high / 2, width: Math.max(to[0] - from[0], 1), height: high },
      { x: area.x, y: area.y, width: area.width, height: area.height });
    return shape && { type: "rect", shape, style: { fill: api.visual("color") } };
  }

  function timeline(part, colours, width, state) {
    const hidden = state.hidden || new Set();
    const shown = part.lanes.map((lane, i) => i).filter(i => !hidden.has(part.lanes[i].group));
    const row = new Map(shown.map((lane, i) => [lane, i]));
    const labels = shown.map(i => part.lanes[i].name);
    const space = left(labels, width);
    const end = part.events.reduce((most, event) => Math.max(most, event[2]), 1);
    const begin = part.events.reduce((least, event) => Math.min(least, event[1]), end);
    return {
      ...base(colours, width),
      tooltip: { ...base(colours, width).tooltip, formatter: p => {
        const [, start, stop, number] = p.value, event = part.events[number];
        return [cut(part.names[event[3]], 300), part.lanes[event[0]].name,
          amounts.exact(stop - start, "ns"), "from " + amounts.time(start) + " to " + amounts.time(stop)].join("\n");
      } },
      grid: { left: space, right: 20, top: 34, bottom: 78, outerBoundsMode: "none" },
      xAxis: axis(colours, { axisLabel: { formatter: v => amounts.time(v) }, rest: { type: "value", min: begin, max: end, splitNumber: width < 600 ? 3 : 7 } }),
      yAxis: axis(colours, { axisLabel: { color: colours.ink, interval: 0, width: space - 12, overflow: "truncate", hideOverlap: false },
        rest: { type: "category", inverse: true, data: labels, splitLine: { show: true, lineStyle: { color: colours.line } } } }),
      dataZoom: [slider(colours, { xAxisIndex: 0, bottom: 10, height: 24, filterMode: "weakFilter", showDataShadow: false,
        labelFormatter: v => amounts.time(v) }), { type: "inside", xAxisIndex: 0, filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: "shift" }],
      series: part.kinds.map((kind, number) => ({ type: "custom", name: kind, renderItem: span, encode: { x: [1, 2], y: 0 },
        dimensions: ["lane", "start", "end", "number"],
        itemStyle: { color: part.colours[kind] || PALETTE[number % PALETTE.length] }, progressive: 0,
        data: part.events.map((e, i) => [row.get(e[0]), e[1], e[2], i, e[4]]).filter(e => e[0] !== undefined && e[4] === number).map(e => e.slice(0, 4)) })),
    };
  }
  timeline.height = (part, width, state) => {
    const hidden = state.hidden || new Set();
    return 124 + 24 * Math.max(part.lanes.filter(lane => !hidden.has(lane.group)).length, 1);
  };

  function scatter(part, colours, width) {
    const point = i => [part.x.values[i], part.y.values[i], i];
    const front = new Set(part.front), every = part.names.map((_, i) => i).filter(i => part.x.values[i] !== null && part.y.values[i] !== null);
    const name = (axis, own) => ({ type: "value", scale: true, name: own.name, nameLocation: "middle", nameGap: axis ? 60 : 32 });
    return {
      ...base(colours, width),
      tooltip: { ...base(colours, width).tooltip, formatter: p => [cut(part.names[p.value[2]], 300),
        part.x.name + ": " + amounts.exact(p.value[0], part.x.unit), part.y.name + ": " + amounts.exact(p.value[1], part.y.unit)].join("\n") },
      grid: { left: 92, right: 24, top: 34, bottom: 56, outerBoundsMode: "none" },
      xAxis: axis(colours, { axisLabel: { formatter: v => amounts.shown(v, part.x.unit) }, rest: name(0, part.x) }),
      yAxis: axis(colours, { axisLabel: { formatter: v => amounts.shown(v, part.y.unit) }, rest: name(1, part.y) }),
      series: [
        { type: "scatter", name: "all", symbolSize: 5, itemStyle: { opacity: 0.45, color: "#4c78a8" }, data: every.filter(i => !front.has(i)).map(point) },
        { type: "line", name: "front", symbol: "circle", symbolSize: 9, itemStyle: { color: "#f58518" }, lineStyle: { width: 1.5 },
          data: every.filter(i => front.has(i)).map(point).sort((a, b) => a[0] - b[0]) }],
    };
  }
  scatter.height = () => 420;

  const live = [];

  // Draw a chart into a box, and again whenever the box or the colours change. Returns what draws it anew.
  function draw(kind, part, box, state) {
    const make = { bars, heat, timeline, scatter }[kind];
    let chart = null, was = 0;
    function again(anew) {
      const width = box.clientWidth || 800, colours = look();
      const height = make.height(part, width, state);
      if (!anew && chart && width === was) return;
      was = width;
      box.style.height = height + "px";
      if (!chart) chart = echarts.init(box, null, { renderer: "canvas" });
      chart.resize({ width, height });
      chart.setOption(make(part, colours, width, state), { notMerge: true });
    }
    again(true);
    live.push(again);
    return () => again(true);
  }

  function redraw(anew) { live.forEach(again => again(anew)); }

  return { draw, redraw };
})();
