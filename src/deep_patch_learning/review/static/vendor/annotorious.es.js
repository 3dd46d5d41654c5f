var Co = Object.defineProperty;
var Do = (e, t, n) => t in e ? Co(e, t, { enumerable: !0, configurable: !0, writable: !0, value: n }) : e[t] = n;
var Ot = (e, t, n) => Do(e, typeof t != "symbol" ? t + "" : t, n);
function $() {
}
function Kt(e, t) {
  for (const n in t) e[n] = t[n];
  return (
    /** @type {T & S} */
    e
  );
}
function oo(e) {
  return e();
}
function an() {
  return /* @__PURE__ */ Object.create(null);
}
function Ae(e) {
  e.forEach(oo);
}
function ie(e) {
  return typeof e == "function";
}
function ae(e, t) {
  return e != e ? t == t : e !== t || e && typeof e == "object" || typeof e == "function";
}
function No(e) {
  return Object.keys(e).length === 0;
}
function so(e, ...t) {
  if (e == null) {
    for (const o of t)
      o(void 0);
    return $;
  }
  const n = e.subscribe(...t);
  return n.unsubscribe ? () => n.unsubscribe() : n;
}
function Ct(e, t, n) {
  e.$$.on_destroy.push(so(t, n));
}
function Ro(e, t, n, o) {
  if (e) {
    const s = io(e, t, n, o);
    return e[0](s);
  }
}
function io(e, t, n, o) {
  return e[1] && o ? Kt(n.ctx.slice(), e[1](o(t))) : n.ctx;
}
function Bo(e, t, n, o) {
  if (e[2] && o) {
    const s = e[2](o(n));
    if (t.dirty === void 0)
      return s;
    if (typeof s == "object") {
      const i = [], l = Math.max(t.dirty.length, s.length);
      for (let r = 0; r < l; r += 1)
        i[r] = t.dirty[r] | s[r];
      return i;
    }
    return t.dirty | s;
  }
  return t.dirty;
}
function Yo(e, t, n, o, s, i) {
  if (s) {
    const l = io(t, n, o, i);
    e.p(l, s);
  }
}
function Uo(e) {
  if (e.ctx.length > 32) {
    const t = [], n = e.ctx.length / 32;
    for (let o = 0; o < n; o++)
      t[o] = -1;
    return t;
  }
  return -1;
}
function cn(e) {
  const t = {};
  for (const n in e) n[0] !== "$" && (t[n] = e[n]);
  return t;
}
function xe(e) {
  return e ?? "";
}
function z(e, t) {
  e.appendChild(t);
}
function Y(e, t, n) {
  e.insertBefore(t, n || null);
}
function B(e) {
  e.parentNode && e.parentNode.removeChild(e);
}
function ze(e, t) {
  for (let n = 0; n < e.length; n += 1)
    e[n] && e[n].d(t);
}
function O(e) {
  return document.createElementNS("http://www.w3.org/2000/svg", e);
}
function ro(e) {
  return document.createTextNode(e);
}
function _e() {
  return ro(" ");
}
function Se() {
  return ro("");
}
function Q(e, t, n, o) {
  return e.addEventListener(t, n, o), () => e.removeEventListener(t, n, o);
}
function f(e, t, n) {
  n == null ? e.removeAttribute(t) : e.getAttribute(t) !== n && e.setAttribute(t, n);
}
function Vo(e) {
  return Array.from(e.childNodes);
}
function Te(e, t, n) {
  e.classList.toggle(t, !!n);
}
function Ho(e, t, { bubbles: n = !1, cancelable: o = !1 } = {}) {
  return new CustomEvent(e, { detail: t, bubbles: n, cancelable: o });
}
let it;
function st(e) {
  it = e;
}
function lo() {
  if (!it) throw new Error("Function called outside component initialization");
  return it;
}
function Ve(e) {
  lo().$$.on_mount.push(e);
}
function He() {
  const e = lo();
  return (t, n, { cancelable: o = !1 } = {}) => {
    const s = e.$$.callbacks[t];
    if (s) {
      const i = Ho(
        /** @type {string} */
        t,
        n,
        { cancelable: o }
      );
      return s.slice().forEach((l) => {
        l.call(e, i);
      }), !i.defaultPrevented;
    }
    return !0;
  };
}
function ue(e, t) {
  const n = e.$$.callbacks[t.type];
  n && n.slice().forEach((o) => o.call(this, t));
}
const Je = [], Et = [];
let $e = [];
const fn = [], ao = /* @__PURE__ */ Promise.resolve();
let Wt = !1;
function co() {
  Wt || (Wt = !0, ao.then(uo));
}
function fo() {
  return co(), ao;
}
function Zt(e) {
  $e.push(e);
}
const Dt = /* @__PURE__ */ new Set();
let Ke = 0;
function uo() {
  if (Ke !== 0)
    return;
  const e = it;
  do {
    try {
      for (; Ke < Je.length; ) {
        const t = Je[Ke];
        Ke++, st(t), Xo(t.$$);
      }
    } catch (t) {
      throw Je.length = 0, Ke = 0, t;
    }
    for (st(null), Je.length = 0, Ke = 0; Et.length; ) Et.pop()();
    for (let t = 0; t < $e.length; t += 1) {
      const n = $e[t];
      Dt.has(n) || (Dt.add(n), n());
    }
    $e.length = 0;
  } while (Je.length);
  for (; fn.length; )
    fn.pop()();
  Wt = !1, Dt.clear(), st(e);
}
function Xo(e) {
  if (e.fragment !== null) {
    e.update(), Ae(e.before_update);
    const t = e.dirty;
    e.dirty = [-1], e.fragment && e.fragment.p(e.ctx, t), e.after_update.forEach(Zt);
  }
}
function Go(e) {
  const t = [], n = [];
  $e.forEach((o) => e.indexOf(o) === -1 ? t.push(o) : n.push(o)), n.forEach((o) => o()), $e = t;
}
const pt = /* @__PURE__ */ new Set();
let Fe;
function ye() {
  Fe = {
    r: 0,
    c: [],
    p: Fe
    // parent group
  };
}
function we() {
  Fe.r || Ae(Fe.c), Fe = Fe.p;
}
function H(e, t) {
  e && e.i && (pt.delete(e), e.i(t));
}
function F(e, t, n, o) {
  if (e && e.o) {
    if (pt.has(e)) return;
    pt.add(e), Fe.c.push(() => {
      pt.delete(e), o && (n && e.d(1), o());
    }), e.o(t);
  } else o && o();
}
function Ee(e) {
  return (e == null ? void 0 : e.length) !== void 0 ? e : Array.from(e);
}
function ce(e) {
  e && e.c();
}
function re(e, t, n) {
  const { fragment: o, after_update: s } = e.$$;
  o && o.m(t, n), Zt(() => {
    const i = e.$$.on_mount.map(oo).filter(ie);
    e.$$.on_destroy ? e.$$.on_destroy.push(...i) : Ae(i), e.$$.on_mount = [];
  }), s.forEach(Zt);
}
function le(e, t) {
  const n = e.$$;
  n.fragment !== null && (Go(n.after_update), Ae(n.on_destroy), n.fragment && n.fragment.d(t), n.on_destroy = n.fragment = null, n.ctx = []);
}
function jo(e, t) {
  e.$$.dirty[0] === -1 && (Je.push(e), co(), e.$$.dirty.fill(0)), e.$$.dirty[t / 31 | 0] |= 1 << t % 31;
}
function me(e, t, n, o, s, i, l = null, r = [-1]) {
  const a = it;
  st(e);
  const c = e.$$ = {
    fragment: null,
    ctx: [],
    // state
    props: i,
    update: $,
    not_equal: s,
    bound: an(),
    // lifecycle
    on_mount: [],
    on_destroy: [],
    on_disconnect: [],
    before_update: [],
    after_update: [],
    context: new Map(t.context || (a ? a.$$.context : [])),
    // everything else
    callbacks: an(),
    dirty: r,
    skip_bound: !1,
    root: t.target || a.$$.root
  };
  l && l(c.root);
  let d = !1;
  if (c.ctx = n ? n(e, t.props || {}, (u, h, ...g) => {
    const m = g.length ? g[0] : h;
    return c.ctx && s(c.ctx[u], c.ctx[u] = m) && (!c.skip_bound && c.bound[u] && c.bound[u](m), d && jo(e, u)), h;
  }) : [], c.update(), d = !0, Ae(c.before_update), c.fragment = o ? o(c.ctx) : !1, t.target) {
    if (t.hydrate) {
      const u = Vo(t.target);
      c.fragment && c.fragment.l(u), u.forEach(B);
    } else
      c.fragment && c.fragment.c();
    t.intro && H(e.$$.fragment), re(e, t.target, t.anchor), uo();
  }
  st(a);
}
class pe {
  constructor() {
    /**
     * ### PRIVATE API
     *
     * Do not use, may change at any time
     *
     * @type {any}
     */
    Ot(this, "$$");
    /**
     * ### PRIVATE API
     *
     * Do not use, may change at any time
     *
     * @type {any}
     */
    Ot(this, "$$set");
  }
  /** @returns {void} */
  $destroy() {
    le(this, 1), this.$destroy = $;
  }
  /**
   * @template {Extract<keyof Events, string>} K
   * @param {K} type
   * @param {((e: Events[K]) => void) | null | undefined} callback
   * @returns {() => void}
   */
  $on(t, n) {
    if (!ie(n))
      return $;
    const o = this.$$.callbacks[t] || (this.$$.callbacks[t] = []);
    return o.push(n), () => {
      const s = o.indexOf(n);
      s !== -1 && o.splice(s, 1);
    };
  }
  /**
   * @param {Partial<Props>} props
   * @returns {void}
   */
  $set(t) {
    this.$$set && !No(t) && (this.$$.skip_bound = !0, this.$$set(t), this.$$.skip_bound = !1);
  }
}
const Fo = "4";
typeof window < "u" && (window.__svelte || (window.__svelte = { v: /* @__PURE__ */ new Set() })).v.add(Fo);
var x = /* @__PURE__ */ ((e) => (e.ELLIPSE = "ELLIPSE", e.MULTIPOLYGON = "MULTIPOLYGON", e.POLYGON = "POLYGON", e.POLYLINE = "POLYLINE", e.RECTANGLE = "RECTANGLE", e.LINE = "LINE", e))(x || {});
function zo(e) {
  return e && e.__esModule && Object.prototype.hasOwnProperty.call(e, "default") ? e.default : e;
}
var ho = { exports: {} };
(function(e) {
  (function() {
    function t(r, a) {
      var c = r.x - a.x, d = r.y - a.y;
      return c * c + d * d;
    }
    function n(r, a, c) {
      var d = a.x, u = a.y, h = c.x - d, g = c.y - u;
      if (h !== 0 || g !== 0) {
        var m = ((r.x - d) * h + (r.y - u) * g) / (h * h + g * g);
        m > 1 ? (d = c.x, u = c.y) : m > 0 && (d += h * m, u += g * m);
      }
      return h = r.x - d, g = r.y - u, h * h + g * g;
    }
    function o(r, a) {
      for (var c = r[0], d = [c], u, h = 1, g = r.length; h < g; h++)
        u = r[h], t(u, c) > a && (d.push(u), c = u);
      return c !== u && d.push(u), d;
    }
    function s(r, a, c, d, u) {
      for (var h = d, g, m = a + 1; m < c; m++) {
        var y = n(r[m], r[a], r[c]);
        y > h && (g = m, h = y);
      }
      h > d && (g - a > 1 && s(r, a, g, d, u), u.push(r[g]), c - g > 1 && s(r, g, c, d, u));
    }
    function i(r, a) {
      var c = r.length - 1, d = [r[0]];
      return s(r, 0, c, a, d), d.push(r[c]), d;
    }
    function l(r, a, c) {
      if (r.length <= 2) return r;
      var d = a !== void 0 ? a * a : 1;
      return r = c ? r : o(r, d), r = i(r, d), r;
    }
    e.exports = l, e.exports.default = l;
  })();
})(ho);
var qo = ho.exports;
const Ko = /* @__PURE__ */ zo(qo), en = {}, et = (e, t) => en[e] = t, Jt = (e) => en[e.type].area(e), Wo = (e, t, n, o) => en[e.type].intersects(e, t, n, o), fe = (e) => {
  let t = 1 / 0, n = 1 / 0, o = -1 / 0, s = -1 / 0;
  return e.forEach(([i, l]) => {
    t = Math.min(t, i), n = Math.min(n, l), o = Math.max(o, i), s = Math.max(s, l);
  }), { minX: t, minY: n, maxX: o, maxY: s };
}, vt = (e) => {
  let t = 0, n = e.length - 1;
  for (let o = 0; o < e.length; o++)
    t += (e[n][0] + e[o][0]) * (e[n][1] - e[o][1]), n = o;
  return Math.abs(0.5 * t);
}, At = (e, t, n) => {
  let o = !1;
  for (let s = 0, i = e.length - 1; s < e.length; i = s++) {
    const l = e[s][0], r = e[s][1], a = e[i][0], c = e[i][1];
    r > n != c > n && t < (a - l) * (n - r) / (c - r) + l && (o = !o);
  }
  return o;
}, go = (e, t = !0) => {
  let n = "M ";
  return e.forEach(([o, s], i) => {
    i === 0 ? n += `${o},${s}` : n += ` L ${o},${s}`;
  }), t && (n += " Z"), n;
}, mo = (e, t = 1) => {
  const n = e.map(([o, s]) => ({ x: o, y: s }));
  return Ko(n, t, !0).map((o) => [o.x, o.y]);
}, _t = (e, t) => {
  const n = Math.abs(t[0] - e[0]), o = Math.abs(t[1] - e[1]);
  return Math.sqrt(Math.pow(n, 2) + Math.pow(o, 2));
}, Zo = {
  area: (e) => Math.PI * e.geometry.rx * e.geometry.ry,
  intersects: (e, t, n) => {
    const { cx: o, cy: s, rx: i, ry: l } = e.geometry, r = 0, a = Math.cos(r), c = Math.sin(r), d = t - o, u = n - s, h = a * d + c * u, g = c * d - a * u;
    return h * h / (i * i) + g * g / (l * l) <= 1;
  }
};
et(x.ELLIPSE, Zo);
const Jo = {
  area: (e) => 0,
  intersects: (e, t, n, o = 2) => {
    const [[s, i], [l, r]] = e.geometry.points, a = Math.abs((r - i) * t - (l - s) * n + l * i - r * s), c = _t([s, i], [l, r]);
    return a / c <= o;
  }
};
et(x.LINE, Jo);
const Qo = {
  area: (e) => {
    const { polygons: t } = e.geometry;
    return t.reduce((n, o) => {
      const [s, ...i] = o.rings, l = vt(s.points), r = i.reduce((a, c) => a + vt(c.points), 0);
      return n + l - r;
    }, 0);
  },
  intersects: (e, t, n) => {
    const { polygons: o } = e.geometry;
    for (const s of o) {
      const [i, ...l] = s.rings;
      if (At(i.points, t, n)) {
        let r = !1;
        for (const a of l)
          if (At(a.points, t, n)) {
            r = !0;
            break;
          }
        if (!r) return !0;
      }
    }
    return !1;
  }
}, yt = (e) => {
  const t = e.reduce((n, o) => [...n, ...o.rings[0].points], []);
  return fe(t);
}, Le = (e) => e.rings.map((n) => go(n.points)).join(" "), xo = (e) => e.polygons.reduce((t, n) => [
  ...t,
  ...n.rings.reduce((o, s) => [...o, ...s.points], [])
], []), il = (e, t = 1) => {
  const n = e.geometry.polygons.map((s) => {
    const i = s.rings.map((r) => {
      const a = mo(r.points, t);
      return {
        ...r,
        points: a
      };
    }), l = fe(i[0].points);
    return {
      ...s,
      rings: i,
      bounds: l
    };
  }), o = yt(n);
  return {
    ...e,
    geometry: {
      ...e.geometry,
      polygons: n,
      bounds: o
    }
  };
};
et(x.MULTIPOLYGON, Qo);
const $o = {
  area: (e) => {
    const t = e.geometry.points;
    return vt(t);
  },
  intersects: (e, t, n) => {
    const o = e.geometry.points;
    return At(o, t, n);
  }
}, rl = (e, t = 1) => {
  const n = mo(e.geometry.points, t), o = fe(n);
  return {
    ...e,
    geometry: {
      ...e.geometry,
      bounds: o,
      points: n
    }
  };
};
et(x.POLYGON, $o);
const es = {
  area: (e) => {
    const t = e.geometry;
    if (!t.closed || t.points.length < 3)
      return 0;
    const n = Qt(t.points, t.closed);
    return vt(n);
  },
  intersects: (e, t, n, o = 2) => {
    const s = e.geometry;
    if (s.closed) {
      const i = Qt(s.points, s.closed);
      return At(i, t, n);
    } else
      return ts(s, [t, n], o);
  }
}, Qt = (e, t = !1) => {
  const n = [];
  for (let o = 0; o < e.length; o++) {
    const s = e[o], i = e[(o + 1) % e.length];
    if (n.push(s.point), (o < e.length - 1 || t) && (s.type === "CURVE" || i.type == "CURVE")) {
      const r = po(
        s.point,
        s.type === "CURVE" && s.outHandle || s.point,
        i.type === "CURVE" && i.inHandle || i.point,
        i.point,
        10
        // number of approximation segments
      );
      n.push(...r.slice(1));
    }
  }
  return n;
}, po = (e, t, n, o, s = 10) => {
  const i = [];
  for (let l = 0; l <= s; l++) {
    const r = l / s, a = Math.pow(1 - r, 3) * e[0] + 3 * Math.pow(1 - r, 2) * r * t[0] + 3 * (1 - r) * Math.pow(r, 2) * n[0] + Math.pow(r, 3) * o[0], c = Math.pow(1 - r, 3) * e[1] + 3 * Math.pow(1 - r, 2) * r * t[1] + 3 * (1 - r) * Math.pow(r, 2) * n[1] + Math.pow(r, 3) * o[1];
    i.push([a, c]);
  }
  return i;
}, ts = (e, t, n) => {
  for (let o = 0; o < e.points.length - 1; o++) {
    const s = e.points[o], i = e.points[o + 1];
    if (s.type === "CURVE" || i.type === "CURVE") {
      const r = po(
        s.point,
        s.type === "CURVE" && s.outHandle || s.point,
        i.type === "CURVE" && i.inHandle || i.point,
        i.point,
        20
        // TODO make configurable? Based on scale factor? Length?
      );
      for (let a = 0; a < r.length - 1; a++)
        if (un(t, r[a], r[a + 1]) <= n) return !0;
    } else if (un(t, s.point, i.point) <= n) return !0;
  }
  return !1;
}, un = (e, t, n) => {
  const [o, s] = e, [i, l] = t, [r, a] = n, c = r - i, d = a - l, u = Math.sqrt(c * c + d * d);
  if (u === 0)
    return Math.sqrt((o - i) * (o - i) + (s - l) * (s - l));
  const h = ((o - i) * c + (s - l) * d) / (u * u);
  return h <= 0 ? Math.sqrt((o - i) * (o - i) + (s - l) * (s - l)) : h >= 1 ? Math.sqrt((o - r) * (o - r) + (s - a) * (s - a)) : Math.abs((a - l) * o - (r - i) * s + r * l - a * i) / u;
}, _o = (e) => {
  if (!e.points || e.points.length === 0)
    return "";
  const t = [], n = e.points[0];
  t.push(`M ${n.point[0]} ${n.point[1]}`);
  for (let o = 1; o < e.points.length; o++) {
    const s = e.points[o], i = e.points[o - 1];
    if (s.type === "CURVE" || i.type === "CURVE") {
      const l = i.type === "CURVE" && i.outHandle || i.point, r = s.type === "CURVE" && s.inHandle || s.point, a = s.point;
      t.push(`C ${l[0]} ${l[1]} ${r[0]} ${r[1]} ${a[0]} ${a[1]}`);
    } else
      t.push(`L ${s.point[0]} ${s.point[1]}`);
  }
  if (e.closed) {
    const o = e.points[e.points.length - 1], s = e.points[0];
    if (o.type === "CURVE" || s.type === "CURVE") {
      const l = o.outHandle || o.point, r = s.inHandle || s.point, a = s.point;
      t.push(`C ${l[0]} ${l[1]} ${r[0]} ${r[1]} ${a[0]} ${a[1]}`);
    }
    t.push("Z");
  }
  return t.join(" ");
};
et(x.POLYLINE, es);
const ns = {
  area: (e) => e.geometry.w * e.geometry.h,
  intersects: (e, t, n) => {
    const o = e.geometry;
    if (o.rot) {
      const s = o.x + o.w / 2, i = o.y + o.h / 2, l = t - s, r = n - i, a = Math.cos(o.rot), c = Math.sin(o.rot), d = l * a + r * c, u = -l * c + r * a;
      return d >= -o.w / 2 && d <= o.w / 2 && u >= -o.h / 2 && u <= o.h / 2;
    } else
      return t >= o.x && t <= o.x + o.w && n >= o.y && n <= o.y + o.h;
  }
};
et(x.RECTANGLE, ns);
const St = (e) => wt(e.target), wt = (e) => {
  var t, n;
  return (e == null ? void 0 : e.annotation) !== void 0 && ((n = (t = e == null ? void 0 : e.selector) == null ? void 0 : t.geometry) == null ? void 0 : n.bounds) !== void 0;
}, Ye = "-?\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?", yo = 512, tn = (e) => (e == null ? void 0 : e.type) === "FragmentSelector" ? !0 : typeof e == "string" ? e.length > yo || e.indexOf("#") < 0 ? !1 : new RegExp(
  `#xywh=((?:pixel|percent):)?(${Ye}),(${Ye}),(${Ye}),(${Ye})$`,
  "i"
).test(e) : !1, os = (e, t = !1) => {
  const n = typeof e == "string" ? e : e.value;
  if (n.length > yo) throw new Error("Fragment too long: " + n);
  const s = new RegExp(
    `(xywh)=((?:pixel|percent))?:?(${Ye}),(${Ye}),(${Ye}),(${Ye})$`
  ).exec(n);
  if (!s) throw new Error("Not a MediaFragment: " + n);
  const [i, l, r, a, c, d, u] = s;
  if (l !== "xywh") throw new Error("Unsupported MediaFragment: " + n);
  if (r && r !== "pixel") throw new Error(`Unsupported MediaFragment unit: ${r}`);
  const [h, g, m, y] = [a, c, d, u].map(parseFloat);
  return {
    type: x.RECTANGLE,
    geometry: {
      x: h,
      y: g,
      w: m,
      h: y,
      rot: 0,
      bounds: {
        minX: h,
        minY: t ? g - y : g,
        maxX: h + m,
        maxY: t ? g : g + y
      }
    }
  };
}, ss = (e) => {
  const { x: t, y: n, w: o, h: s } = e;
  return {
    type: "FragmentSelector",
    conformsTo: "http://www.w3.org/TR/media-frags/",
    value: `xywh=pixel:${t},${n},${o},${s}`
  };
}, xt = "http://www.w3.org/2000/svg", dn = (e) => {
  const t = (o) => {
    Array.from(o.attributes).forEach((s) => {
      s.name.startsWith("on") && o.removeAttribute(s.name);
    });
  }, n = e.getElementsByTagName("script");
  return Array.from(n).reverse().forEach((o) => o.parentNode.removeChild(o)), Array.from(e.querySelectorAll("*")).forEach(t), e;
}, is = (e) => {
  const o = new XMLSerializer().serializeToString(e.documentElement).replace("<svg>", `<svg xmlns="${xt}">`);
  return new DOMParser().parseFromString(o, "image/svg+xml").documentElement;
}, at = (e) => {
  const t = new DOMParser(), n = e.trimStart().startsWith("<svg") ? e : `<svg xmlns="${xt}">${e}</svg>`, o = t.parseFromString(n, "image/svg+xml"), s = o.lookupPrefix(xt), i = o.lookupNamespaceURI(null);
  return s || i ? dn(o).firstChild : dn(is(o)).firstChild;
}, rs = (e) => {
  const t = wo(e), n = [];
  let o = [], s = [0, 0];
  for (const i of t)
    switch (i.type.toUpperCase()) {
      case "M":
        o.length > 0 && (n.push({ points: o }), o = []), s = [i.args[0], i.args[1]], o.push([...s]);
        break;
      case "L":
        s = [i.args[0], i.args[1]], o.push([...s]);
        break;
      case "H":
        s = [i.args[0], s[1]], o.push([...s]);
        break;
      case "V":
        s = [s[0], i.args[0]], o.push([...s]);
        break;
      case "C":
        s = [i.args[4], i.args[5]], o.push([...s]);
        break;
      case "A": {
        const [l, r, a, c, d, u, h] = i.args, g = fs(s, [u, h], l, r, a, c, d);
        o.push(...g), s = [u, h];
        break;
      }
      case "Z":
        break;
      default:
        console.warn(`Unsupported SVG path command: ${i.type}`);
        break;
    }
  if (o.length > 2 && n.push({ points: o }), n.length > 0) {
    const i = fe(n[0].points);
    return { rings: n, bounds: i };
  }
}, hn = (e, t, n, o) => {
  if (e.length > 0) {
    const i = e[e.length - 1];
    (t[0] !== i.point[0] || t[1] !== i.point[1]) && (i.type = "CURVE", i.outHandle = t);
  }
  const s = {
    type: n[0] !== o[0] || n[1] !== o[1] ? "CURVE" : "CORNER",
    point: o
  };
  s.type === "CURVE" && (s.inHandle = n), e.push(s);
}, ls = (e) => {
  const { point: t, inHandle: n, outHandle: o } = e;
  if (!n || !o) return !1;
  const s = n[0] - t[0], i = n[1] - t[1], l = o[0] - t[0], r = o[1] - t[1], a = s * r - i * l;
  return Math.abs(a) < 0.01;
}, as = (e) => {
  const t = wo(e);
  let n = [], o = [0, 0], s = !1;
  for (let l = 0; l < t.length; l++) {
    const r = t[l];
    switch (r.type.toUpperCase()) {
      case "M":
        o = [r.args[0], r.args[1]], n.push({
          type: "CORNER",
          point: [...o]
        });
        break;
      case "L":
        o = [r.args[0], r.args[1]], n.push({
          type: "CORNER",
          point: [...o]
        });
        break;
      case "C": {
        const a = [r.args[0], r.args[1]], c = [r.args[2], r.args[3]], d = [r.args[4], r.args[5]];
        hn(n, a, c, d), o = d;
        break;
      }
      case "A": {
        const [a, c, d, u, h, g, m] = r.args;
        us(o, [g, m], a, c, d, u, h).forEach(({ cp1: A, cp2: w, end: v }) => hn(n, A, w, v)), o = [g, m];
        break;
      }
      case "Z":
        s = !0;
        break;
      default:
        console.warn(`Unsupported SVG path command: ${r.type}`);
        break;
    }
  }
  n = n.map((l) => ls(l) ? { ...l, locked: !0 } : l);
  const i = fe(Qt(n, s));
  return {
    points: n,
    closed: s,
    bounds: i
  };
}, wo = (e) => {
  const t = [], n = e.replace(/,/g, " ").trim(), o = /([MmLlHhVvCcAaZz])\s*([^MmLlHhVvCcAaZz]*)/g;
  let s;
  for (; (s = o.exec(n)) !== null; ) {
    const [, i, l] = s, r = l.trim() === "" ? [] : l.trim().split(/\s+/).map(Number).filter((c) => !isNaN(c)), a = cs(i);
    if (a === 0 || r.length <= a)
      t.push({ type: i, args: r });
    else
      for (let c = 0; c < r.length; c += a) {
        const d = c === 0 ? i : i === "M" ? "L" : i === "m" ? "l" : i;
        t.push({ type: d, args: r.slice(c, c + a) });
      }
  }
  return t;
}, cs = (e) => {
  switch (e.toUpperCase()) {
    case "M":
    case "L":
      return 2;
    case "H":
    case "V":
      return 1;
    case "C":
      return 6;
    case "A":
      return 7;
    case "Z":
      return 0;
    default:
      return 2;
  }
}, bo = (e, t, n, o, s, i, l) => {
  const [r, a] = e, [c, d] = t;
  n = Math.abs(n), o = Math.abs(o);
  const u = s % 360 * Math.PI / 180, h = Math.cos(u), g = Math.sin(u), m = (r - c) / 2, y = (a - d) / 2, A = h * m + g * y, w = -g * m + h * y, v = A * A / (n * n) + w * w / (o * o);
  if (v > 1) {
    const E = Math.sqrt(v);
    n *= E, o *= E;
  }
  const p = n * n, S = o * o, P = A * A, T = w * w, L = Math.max(p * S - p * T - S * P, 0), D = p * T + S * P, I = (i !== l ? 1 : -1) * (D === 0 ? 0 : Math.sqrt(L / D)), K = I * (n * w) / o, X = -I * (o * A) / n, G = h * K - g * X + (r + c) / 2, N = g * K + h * X + (a + d) / 2, M = (E, k, V, C) => {
    const q = E * C - k * V < 0 ? -1 : 1, j = Math.max(-1, Math.min(1, (E * V + k * C) / (Math.hypot(E, k) * Math.hypot(V, C))));
    return q * Math.acos(j);
  }, _ = M(1, 0, (A - K) / n, (w - X) / o);
  let b = M((A - K) / n, (w - X) / o, (-A - K) / n, (-w - X) / o);
  return !l && b > 0 && (b -= 2 * Math.PI), l && b < 0 && (b += 2 * Math.PI), { cx: G, cy: N, rx: n, ry: o, cosPhi: h, sinPhi: g, theta1: _, dtheta: b };
}, fs = (e, t, n, o, s, i, l, r = 64) => {
  const [a, c] = e, [d, u] = t;
  if (n === 0 || o === 0 || a === d && c === u)
    return [[d, u]];
  const { cx: h, cy: g, rx: m, ry: y, cosPhi: A, sinPhi: w, theta1: v, dtheta: p } = bo(e, t, n, o, s, i, l), S = Math.max(4, Math.round(r * Math.abs(p) / (2 * Math.PI))), P = [];
  for (let T = 1; T <= S; T++) {
    const L = v + p * T / S, D = h + m * Math.cos(L) * A - y * Math.sin(L) * w, I = g + m * Math.cos(L) * w + y * Math.sin(L) * A;
    P.push([D, I]);
  }
  return P[P.length - 1] = [d, u], P;
}, us = (e, t, n, o, s, i, l) => {
  const [r, a] = e, [c, d] = t;
  if (n === 0 || o === 0 || r === c && a === d)
    return [{ cp1: t, cp2: t, end: t }];
  const { cx: u, cy: h, rx: g, ry: m, cosPhi: y, sinPhi: A, theta1: w, dtheta: v } = bo(e, t, n, o, s, i, l), p = Math.max(1, Math.ceil(Math.abs(v) / (Math.PI / 2))), S = v / p, P = 4 / 3 * Math.tan(S / 4), T = (D, I) => [
    u + g * D * y - m * I * A,
    h + g * D * A + m * I * y
  ], L = [];
  for (let D = 0; D < p; D++) {
    const I = w + D * S, K = I + S, X = Math.cos(I), G = Math.sin(I), N = Math.cos(K), M = Math.sin(K), _ = T(X - P * G, G + P * X), b = T(N + P * M, M - P * N), E = D === p - 1 ? t : T(N, M);
    L.push({ cp1: _, cp2: b, end: E });
  }
  return L;
}, ds = (e) => {
  const [t, n, o] = e.match(/(<polygon points=["|'])([^("|')]*)/) || [], s = o.split(" ").map((i) => i.split(",").map(parseFloat));
  return {
    type: x.POLYGON,
    geometry: {
      points: s,
      bounds: fe(s)
    }
  };
}, hs = (e) => {
  const t = at(e), n = parseFloat(t.getAttribute("cx")), o = parseFloat(t.getAttribute("cy")), s = parseFloat(t.getAttribute("rx")), i = parseFloat(t.getAttribute("ry")), l = {
    minX: n - s,
    minY: o - i,
    maxX: n + s,
    maxY: o + i
  };
  return {
    type: x.ELLIPSE,
    geometry: {
      cx: n,
      cy: o,
      rx: s,
      ry: i,
      bounds: l
    }
  };
}, gs = (e) => {
  const t = at(e), n = parseFloat(t.getAttribute("x1")), o = parseFloat(t.getAttribute("x2")), s = parseFloat(t.getAttribute("y1")), i = parseFloat(t.getAttribute("y2")), l = {
    minX: Math.min(n, o),
    minY: Math.min(s, i),
    maxX: Math.max(n, o),
    maxY: Math.max(s, i)
  };
  return {
    type: x.LINE,
    geometry: {
      points: [[n, s], [o, i]],
      bounds: l
    }
  };
}, ms = (e) => {
  const t = at(e), n = t.nodeName === "path" ? t : Array.from(t.querySelectorAll("path"))[0], o = n == null ? void 0 : n.getAttribute("d");
  if (!o)
    throw new Error("Could not parse SVG path");
  const s = as(o);
  if (!s)
    throw new Error("Could not parse SVG path");
  return {
    type: x.POLYLINE,
    geometry: s
  };
}, ps = (e) => {
  const t = at(e), n = t.nodeName === "rect" ? t : Array.from(t.querySelectorAll("rect"))[0];
  if (!n) throw new Error("Could not parse SVG rect");
  const o = parseFloat(n.getAttribute("x")), s = parseFloat(n.getAttribute("y")), i = parseFloat(n.getAttribute("width")), l = parseFloat(n.getAttribute("height")), r = n.getAttribute("transform");
  let a = 0;
  if (r && r.startsWith("rotate(")) {
    const m = r.match(/rotate\(([^)]+)\)/);
    m && (a = m[1].split(/\s+/).map(parseFloat)[0] * Math.PI / 180);
  }
  const c = o + i / 2, d = s + l / 2, h = [
    [o, s],
    [o + i, s],
    [o + i, s + l],
    [o, s + l]
  ].map(([m, y]) => {
    const A = m - c, w = y - d, v = Math.cos(a), p = Math.sin(a);
    return [
      c + A * v - w * p,
      d + A * p + w * v
    ];
  }), g = fe(h);
  return {
    type: x.RECTANGLE,
    geometry: {
      x: o,
      y: s,
      w: i,
      h: l,
      rot: a,
      bounds: g
    }
  };
}, _s = (e) => {
  const t = at(e), s = (t.nodeName === "path" ? [t] : Array.from(t.querySelectorAll("path"))).map((a) => a.getAttribute("d") || "").map((a) => rs(a)).filter(Boolean), i = s.reduce((a, c) => [...a, ...c.rings[0].points], []), l = fe(i);
  return s.length === 1 && s[0].rings.length === 1 ? {
    type: x.POLYGON,
    geometry: {
      points: i,
      bounds: l
    }
  } : {
    type: x.MULTIPOLYGON,
    geometry: {
      polygons: s,
      bounds: l
    }
  };
}, ys = (e) => {
  const t = typeof e == "string" ? e : e.value;
  if (t.includes("<polygon points="))
    return ds(t);
  if (t.includes("<path ") && (t.includes(" C ") || t.includes(" A ") || !t.includes("Z")))
    return ms(t);
  if (t.includes("<path "))
    return _s(t);
  if (t.includes("<ellipse "))
    return hs(t);
  if (t.includes("<line "))
    return gs(t);
  if (t.includes("<rect "))
    return ps(t);
  throw "Unsupported SVG shape: " + t;
}, ws = (e, t, n, o) => `M ${e + n},${t} A ${n},${o} 0 1,1 ${e - n},${t} A ${n},${o} 0 1,1 ${e + n},${t} Z`, bs = (e) => `<g>${e.polygons.map((n) => `<path fill-rule="evenodd" d="${Le(n)}" />`).join("")}</g>`, Es = (e, t = !1) => {
  let n;
  switch (e.type) {
    case x.RECTANGLE: {
      const o = e.geometry, { x: s, y: i, w: l, h: r, rot: a } = o;
      if (!a)
        n = `<svg><rect x="${s}" y="${i}" width="${l}" height="${r}" /></svg>`;
      else {
        const c = s + l / 2, d = i + r / 2, u = (a ?? 0) * 180 / Math.PI;
        n = `<svg><rect x="${s}" y="${i}" width="${l}" height="${r}" transform="rotate(${u} ${c} ${d})" /></svg>`;
      }
      break;
    }
    case x.POLYGON: {
      const o = e.geometry, { points: s } = o;
      n = t ? `<svg><path d="${go(s)}" /></svg>` : `<svg><polygon points="${s.map((i) => i.join(",")).join(" ")}" /></svg>`;
      break;
    }
    case x.ELLIPSE: {
      const o = e.geometry, { cx: s, cy: i, rx: l, ry: r } = o;
      n = t ? `<svg><path d="${ws(s, i, l, r)}" /></svg>` : `<svg><ellipse cx="${s}" cy="${i}" rx="${l}" ry="${r}" /></svg>`;
      break;
    }
    case x.MULTIPOLYGON: {
      const o = e.geometry;
      n = `<svg>${bs(o)}</svg>`;
      break;
    }
    case x.LINE: {
      const o = e.geometry, [[s, i], [l, r]] = o.points;
      n = t ? `<svg><path d="M ${s},${i} L ${l},${r}" /></svg>` : `<svg><line x1="${s}" y1="${i}" x2="${l}" y2="${r}" /></svg>`;
      break;
    }
    case x.POLYLINE:
      n = `<svg><path d="${_o(e.geometry)}" /></svg>`;
  }
  if (n)
    return { type: "SvgSelector", value: n };
  throw `Unsupported shape type: ${e.type}`;
}, he = [];
for (let e = 0; e < 256; ++e)
  he.push((e + 256).toString(16).slice(1));
function vs(e, t = 0) {
  return (he[e[t + 0]] + he[e[t + 1]] + he[e[t + 2]] + he[e[t + 3]] + "-" + he[e[t + 4]] + he[e[t + 5]] + "-" + he[e[t + 6]] + he[e[t + 7]] + "-" + he[e[t + 8]] + he[e[t + 9]] + "-" + he[e[t + 10]] + he[e[t + 11]] + he[e[t + 12]] + he[e[t + 13]] + he[e[t + 14]] + he[e[t + 15]]).toLowerCase();
}
const As = new Uint8Array(16);
function Ss() {
  return crypto.getRandomValues(As);
}
function Eo(e, t, n) {
  return crypto.randomUUID ? crypto.randomUUID() : Ms(e);
}
function Ms(e, t, n) {
  var s;
  e = e || {};
  const o = e.random ?? ((s = e.rng) == null ? void 0 : s.call(e)) ?? Ss();
  if (o.length < 16)
    throw new Error("Random bytes length must be >= 16");
  return o[6] = o[6] & 15 | 64, o[8] = o[8] & 63 | 128, vs(o);
}
var gn = Object.prototype.hasOwnProperty;
function Ue(e, t) {
  var n, o;
  if (e === t) return !0;
  if (e && t && (n = e.constructor) === t.constructor) {
    if (n === Date) return e.getTime() === t.getTime();
    if (n === RegExp) return e.toString() === t.toString();
    if (n === Array) {
      if ((o = e.length) === t.length)
        for (; o-- && Ue(e[o], t[o]); ) ;
      return o === -1;
    }
    if (!n || typeof e == "object") {
      o = 0;
      for (n in e)
        if (gn.call(e, n) && ++o && !gn.call(t, n) || !(n in t) || !Ue(e[n], t[n])) return !1;
      return Object.keys(t).length === o;
    }
  }
  return e !== e && t !== t;
}
const ks = Symbol("clean");
let ke = [], Be = 0;
const bt = 4, Ps = globalThis.nanostoresGlobal || (globalThis.nanostoresGlobal = { epoch: 0 });
let Ts = () => {
  let e;
  for (Be = 0; Be < ke.length; Be += bt)
    try {
      ke[Be](
        ke[Be + 1].value,
        ke[Be + 2],
        ke[Be + 3]
      );
    } catch (t) {
      e = t;
    }
  if (ke.length = 0, e) throw e;
};
const nn = /* @__NO_SIDE_EFFECTS__ */ (e) => {
  let t = [], n = {
    eq: Object.is,
    get() {
      return n.lc || n.listen(() => {
      })(), n.value;
    },
    init: e,
    lc: 0,
    listen(o) {
      return n.lc = t.push(o), () => {
        for (let i = Be + bt; i < ke.length; )
          ke[i] === o ? ke.splice(i, bt) : i += bt;
        let s = t.indexOf(o);
        ~s && (t.splice(s, 1), --n.lc || n.off());
      };
    },
    notify(o, s) {
      Ps.epoch++;
      let i = !ke.length && !0;
      for (let l of t)
        ke.push(
          l,
          n,
          o,
          s
        );
      i && Ts();
    },
    /* It will be called on last listener unsubscribing.
       We will redefine it in onMount and onStop. */
    off() {
    },
    set(o) {
      let s = n.value;
      n.eq(s, o) || (n.value = o, n.notify(s));
    },
    subscribe(o) {
      let s = n.listen(o);
      return o(n.value), s;
    },
    value: e
  };
  return process.env.NODE_ENV !== "production" && (n[ks] = () => {
    t = [], n.lc = 0, n.off();
  }), n;
}, Ls = (e) => {
  const t = /* @__PURE__ */ nn(null);
  return e.observe(({ changes: n }) => {
    const o = t.get();
    if (o) {
      (n.deleted || []).some((i) => i.id === o) && t.set(null);
      const s = (n.updated || []).find(({ oldValue: i }) => i.id === o);
      s && t.set(s.newValue.id);
    }
  }), {
    get current() {
      return t.get();
    },
    subscribe: t.subscribe.bind(t),
    set: t.set.bind(t)
  };
};
var on = /* @__PURE__ */ ((e) => (e.EDIT = "EDIT", e.SELECT = "SELECT", e.NONE = "NONE", e))(on || {});
const Nt = { selected: [] }, Is = (e, t, n) => {
  const o = /* @__PURE__ */ nn(Nt);
  let s = t;
  const i = () => {
    Ue(o.get(), Nt) || o.set(Nt);
  }, l = () => {
    var g;
    return ((g = o.get().selected) == null ? void 0 : g.length) === 0;
  }, r = (g) => {
    if (l())
      return !1;
    const m = typeof g == "string" ? g : g.id;
    return o.get().selected.some((y) => y.id === m);
  }, a = (g, m) => {
    let y;
    if (Array.isArray(g)) {
      if (y = g.map((w) => e.getAnnotation(w)).filter(Boolean), y.length < g.length) {
        console.warn("Invalid selection: " + g.filter((w) => !y.some((v) => v.id === w)));
        return;
      }
    } else {
      const w = e.getAnnotation(g);
      if (!w) {
        console.warn("Invalid selection: " + g);
        return;
      }
      y = [w];
    }
    const A = y.reduce((w, v) => {
      const p = h(v);
      return p === "EDIT" ? [...w, { id: v.id, editable: !0 }] : p === "SELECT" ? [...w, { id: v.id }] : w;
    }, []);
    o.set({ selected: A, event: m });
  }, c = (g, m) => {
    const y = Array.isArray(g) ? g : [g], A = y.map((w) => e.getAnnotation(w)).filter((w) => !!w);
    o.set({
      selected: A.map((w) => {
        const v = m === void 0 ? h(w) === "EDIT" : m;
        return { id: w.id, editable: v };
      })
    }), A.length !== y.length && console.warn("Invalid selection", g);
  }, d = (g) => {
    if (l())
      return !1;
    const { selected: m } = o.get();
    m.some(({ id: y }) => g.includes(y)) && o.set({ selected: m.filter(({ id: y }) => !g.includes(y)) });
  }, u = (g) => {
    s = g, c(o.get().selected.map(({ id: m }) => m));
  }, h = (g) => Os(g, s, n);
  return e.observe(
    ({ changes: g }) => d((g.deleted || []).map((m) => m.id))
  ), {
    get event() {
      const g = o.get();
      return g ? g.event : null;
    },
    get selected() {
      const g = o.get();
      return g ? [...g.selected] : null;
    },
    get userSelectAction() {
      return s;
    },
    clear: i,
    evalSelectAction: h,
    isEmpty: l,
    isSelected: r,
    setSelected: c,
    setUserSelectAction: u,
    subscribe: o.subscribe.bind(o),
    userSelect: a
  };
}, Os = (e, t, n) => {
  const o = n ? n.serialize(e) : e;
  return typeof t == "function" ? t(o) : t || "EDIT";
}, ge = [];
for (let e = 0; e < 256; ++e)
  ge.push((e + 256).toString(16).slice(1));
function Cs(e, t = 0) {
  return (ge[e[t + 0]] + ge[e[t + 1]] + ge[e[t + 2]] + ge[e[t + 3]] + "-" + ge[e[t + 4]] + ge[e[t + 5]] + "-" + ge[e[t + 6]] + ge[e[t + 7]] + "-" + ge[e[t + 8]] + ge[e[t + 9]] + "-" + ge[e[t + 10]] + ge[e[t + 11]] + ge[e[t + 12]] + ge[e[t + 13]] + ge[e[t + 14]] + ge[e[t + 15]]).toLowerCase();
}
const Ds = new Uint8Array(16);
function Ns() {
  return crypto.getRandomValues(Ds);
}
function vo(e, t, n) {
  return crypto.randomUUID ? crypto.randomUUID() : Rs(e);
}
function Rs(e, t, n) {
  var o;
  e = e || {};
  const s = e.random ?? ((o = e.rng) == null ? void 0 : o.call(e)) ?? Ns();
  if (s.length < 16)
    throw new Error("Random bytes length must be >= 16");
  return s[6] = s[6] & 15 | 64, s[8] = s[8] & 63 | 128, Cs(s);
}
const Rt = (e) => {
  const t = (n) => {
    const o = { ...n };
    return n.created && typeof n.created == "string" && (o.created = new Date(n.created)), n.updated && typeof n.updated == "string" && (o.updated = new Date(n.updated)), o;
  };
  return {
    ...e,
    bodies: (e.bodies || []).map(t),
    target: t(e.target)
  };
}, ll = (e, t, n, o) => ({
  id: vo(),
  annotation: typeof e == "string" ? e : e.id,
  created: n || /* @__PURE__ */ new Date(),
  creator: o,
  ...t
}), Bs = (e, t) => {
  const n = new Set(e.bodies.map((o) => o.id));
  return t.bodies.filter((o) => !n.has(o.id));
}, Ys = (e, t) => {
  const n = new Set(t.bodies.map((o) => o.id));
  return e.bodies.filter((o) => !n.has(o.id));
}, Us = (e, t) => t.bodies.map((n) => {
  const o = e.bodies.find((s) => s.id === n.id);
  return { newBody: n, oldBody: o && !Ue(o, n) ? o : void 0 };
}).filter(({ oldBody: n }) => n).map(({ oldBody: n, newBody: o }) => ({ oldBody: n, newBody: o })), Vs = (e, t) => !Ue(e.target, t.target), Ao = (e, t) => {
  const n = Bs(e, t), o = Ys(e, t), s = Us(e, t);
  return {
    oldValue: e,
    newValue: t,
    bodiesCreated: n.length > 0 ? n : void 0,
    bodiesDeleted: o.length > 0 ? o : void 0,
    bodiesUpdated: s.length > 0 ? s : void 0,
    targetUpdated: Vs(e, t) ? { oldTarget: e.target, newTarget: t.target } : void 0
  };
};
var oe = /* @__PURE__ */ ((e) => (e.LOCAL = "LOCAL", e.REMOTE = "REMOTE", e.SILENT = "SILENT", e))(oe || {});
const Hs = (e, t) => {
  var n, o;
  const { changes: s, origin: i } = t;
  if (!(e.options.origin ? e.options.origin === i : i !== "SILENT"))
    return !1;
  if (e.options.ignore) {
    const { ignore: l } = e.options, r = (a) => a && a.length > 0;
    if (!(r(s.created) || r(s.deleted))) {
      const a = (n = s.updated) == null ? void 0 : n.some((d) => r(d.bodiesCreated) || r(d.bodiesDeleted) || r(d.bodiesUpdated)), c = (o = s.updated) == null ? void 0 : o.some((d) => d.targetUpdated);
      if (l === "BODY_ONLY" && a && !c || l === "TARGET_ONLY" && c && !a)
        return !1;
    }
  }
  if (e.options.annotations) {
    const l = /* @__PURE__ */ new Set([
      ...(s.created || []).map((r) => r.id),
      ...(s.deleted || []).map((r) => r.id),
      ...(s.updated || []).map(({ oldValue: r }) => r.id)
    ]);
    return !!(Array.isArray(e.options.annotations) ? e.options.annotations : [e.options.annotations]).find((r) => l.has(r));
  } else
    return !0;
}, Xs = (e, t) => {
  const n = new Set((e.created || []).map((u) => u.id)), o = new Set((e.updated || []).map(({ newValue: u }) => u.id)), s = new Set((t.created || []).map((u) => u.id)), i = new Set((t.deleted || []).map((u) => u.id)), l = new Set((t.updated || []).map(({ oldValue: u }) => u.id)), r = new Set((t.updated || []).filter(({ oldValue: u }) => n.has(u.id) || o.has(u.id)).map(({ oldValue: u }) => u.id)), a = [
    ...(e.created || []).filter((u) => !i.has(u.id)).map((u) => l.has(u.id) ? t.updated.find(({ oldValue: h }) => h.id === u.id).newValue : u),
    ...t.created || []
  ], c = [
    ...(e.deleted || []).filter((u) => !s.has(u.id)),
    ...(t.deleted || []).filter((u) => !n.has(u.id))
  ], d = [
    ...(e.updated || []).filter(({ newValue: u }) => !i.has(u.id)).map((u) => {
      const { oldValue: h, newValue: g } = u;
      if (l.has(g.id)) {
        const m = t.updated.find((y) => y.oldValue.id === g.id).newValue;
        return Ao(h, m);
      } else
        return u;
    }),
    ...(t.updated || []).filter(({ oldValue: u }) => !r.has(u.id))
  ];
  return { created: a, deleted: c, updated: d };
}, Bt = (e) => {
  const t = e.id === void 0 ? vo() : e.id;
  return {
    ...e,
    id: t,
    bodies: e.bodies === void 0 ? [] : e.bodies.map((n) => ({
      ...n,
      annotation: t
    })),
    target: {
      ...e.target,
      annotation: t
    }
  };
}, Gs = (e) => e.id !== void 0, js = () => {
  const e = /* @__PURE__ */ new Map(), t = /* @__PURE__ */ new Map(), n = [], o = (_, b = {}) => {
    n.push({ onChange: _, options: b });
  }, s = (_) => {
    const b = n.findIndex((E) => E.onChange == _);
    b > -1 && n.splice(b, 1);
  }, i = (_, b) => {
    const E = {
      origin: _,
      changes: {
        created: b.created || [],
        updated: b.updated || [],
        deleted: b.deleted || []
      },
      state: [...e.values()]
    };
    n.forEach((k) => {
      Hs(k, E) && k.onChange(E);
    });
  }, l = (_) => {
    e.set(_.id, _), _.bodies.forEach((b) => t.set(b.id, _.id));
  }, r = (_, b = oe.LOCAL) => {
    if (_.id && e.get(_.id))
      throw Error(`Cannot add annotation ${_.id} - exists already`);
    {
      const E = Bt(_);
      l(E), i(b, { created: [E] });
    }
  }, a = (_, b) => {
    const E = Bt(typeof _ == "string" ? b : _), k = typeof _ == "string" ? _ : _.id, V = k && e.get(k);
    if (V) {
      const C = Ao(V, E);
      return k === E.id ? e.set(k, E) : (e.delete(k), e.set(E.id, E)), V.bodies.forEach((q) => t.delete(q.id)), E.bodies.forEach((q) => t.set(q.id, E.id)), C;
    } else
      console.warn(`Cannot update annotation ${k} - does not exist`);
  }, c = (_, b = oe.LOCAL, E = oe.LOCAL) => {
    const k = Gs(b) ? E : b, V = a(_, b);
    V && i(k, { updated: [V] });
  }, d = (_, b = oe.LOCAL) => {
    e.get(_.id) ? c(_, b) : r(_, b);
  }, u = (_, b = oe.LOCAL) => {
    const E = _.reduce((k, V) => {
      const C = a(V);
      return C ? [...k, C] : k;
    }, []);
    E.length > 0 && i(b, { updated: E });
  }, h = (_) => _.map(Bt).reduce((b, E) => e.get(E.id) ? { ...b, toUpdate: [...b.toUpdate, E] } : { ...b, toAdd: [...b.toAdd, E] }, { toAdd: [], toUpdate: [] }), g = (_, b = oe.LOCAL) => {
    const { toAdd: E, toUpdate: k } = h(_), V = k.map((C) => a(C, b)).filter(Boolean);
    E.forEach(l), i(b, { created: E, updated: V });
  }, m = (_, b = oe.LOCAL) => {
    const E = e.get(_.annotation);
    if (E) {
      const k = {
        ...E,
        bodies: [...E.bodies, _]
      };
      e.set(E.id, k), t.set(_.id, k.id), i(b, { updated: [{
        oldValue: E,
        newValue: k,
        bodiesCreated: [_]
      }] });
    } else
      console.warn(`Attempt to add body to missing annotation: ${_.annotation}`);
  }, y = () => [...e.values()], A = (_ = oe.LOCAL) => {
    const b = [...e.values()];
    e.clear(), t.clear(), i(_, { deleted: b });
  }, w = (_, b = oe.LOCAL) => {
    const { toAdd: E, toUpdate: k } = h(_), V = new Set([...E, ...k].map((j) => j.id)), C = [...e.keys()].filter((j) => !V.has(j)).map((j) => p(j)).filter(Boolean), q = k.map((j) => a(j)).filter(Boolean);
    E.forEach(l), i(b, { created: E, updated: q, deleted: C });
  }, v = (_, b = !0, E = oe.LOCAL) => {
    b ? w(_, E) : g(_, E);
  }, p = (_) => {
    const b = typeof _ == "string" ? _ : _.id, E = e.get(b);
    if (E)
      return e.delete(b), E.bodies.forEach((k) => t.delete(k.id)), E;
    console.warn(`Attempt to delete missing annotation: ${b}`);
  }, S = (_, b = oe.LOCAL) => {
    const E = p(_);
    E && i(b, { deleted: [E] });
  }, P = (_, b = oe.LOCAL) => {
    const E = _.reduce((k, V) => {
      const C = p(V);
      return C ? [...k, C] : k;
    }, []);
    E.length > 0 && i(b, { deleted: E });
  }, T = (_) => {
    const b = e.get(_.annotation);
    if (b) {
      const E = b.bodies.find((k) => k.id === _.id);
      if (E) {
        t.delete(E.id);
        const k = {
          ...b,
          bodies: b.bodies.filter((V) => V.id !== _.id)
        };
        return e.set(b.id, k), {
          oldValue: b,
          newValue: k,
          bodiesDeleted: [E]
        };
      } else
        console.warn(`Attempt to delete missing body ${_.id} from annotation ${_.annotation}`);
    } else
      console.warn(`Attempt to delete body from missing annotation ${_.annotation}`);
  }, L = (_, b = oe.LOCAL) => {
    const E = T(_);
    E && i(b, { updated: [E] });
  }, D = (_, b = oe.LOCAL) => {
    const E = _.map((k) => T(k)).filter(Boolean);
    E.length > 0 && i(b, { updated: E });
  }, I = (_) => {
    const b = e.get(_);
    return b ? { ...b } : void 0;
  }, K = (_) => {
    const b = t.get(_);
    if (b) {
      const E = I(b).bodies.find((k) => k.id === _);
      if (E)
        return E;
      console.error(`Store integrity error: body ${_} in index, but not in annotation`);
    } else
      console.warn(`Attempt to retrieve missing body: ${_}`);
  }, X = (_, b) => {
    if (_.annotation !== b.annotation)
      throw "Annotation integrity violation: annotation ID must be the same when updating bodies";
    const E = e.get(_.annotation);
    if (E) {
      const k = E.bodies.find((C) => C.id === _.id), V = {
        ...E,
        bodies: E.bodies.map((C) => C.id === k.id ? b : C)
      };
      return e.set(E.id, V), k.id !== b.id && (t.delete(k.id), t.set(b.id, V.id)), {
        oldValue: E,
        newValue: V,
        bodiesUpdated: [{ oldBody: k, newBody: b }]
      };
    } else
      console.warn(`Attempt to add body to missing annotation ${_.annotation}`);
  }, G = (_, b, E = oe.LOCAL) => {
    const k = X(_, b);
    k && i(E, { updated: [k] });
  }, N = (_, b = oe.LOCAL) => {
    const E = _.map((k) => X({ id: k.id, annotation: k.annotation }, k)).filter(Boolean);
    i(b, { updated: E });
  }, M = (_) => {
    const b = e.get(_.annotation);
    if (b) {
      const E = {
        ...b,
        target: {
          ...b.target,
          ..._
        }
      };
      return e.set(b.id, E), {
        oldValue: b,
        newValue: E,
        targetUpdated: {
          oldTarget: b.target,
          newTarget: _
        }
      };
    } else
      console.warn(`Attempt to update target on missing annotation: ${_.annotation}`);
  };
  return {
    addAnnotation: r,
    addBody: m,
    all: y,
    bulkAddAnnotations: v,
    bulkDeleteAnnotations: P,
    bulkDeleteBodies: D,
    bulkUpdateAnnotations: u,
    bulkUpdateBodies: N,
    bulkUpdateTargets: (_, b = oe.LOCAL) => {
      const E = _.map((k) => M(k)).filter(Boolean);
      E.length > 0 && i(b, { updated: E });
    },
    bulkUpsertAnnotations: g,
    clear: A,
    deleteAnnotation: S,
    deleteBody: L,
    getAnnotation: I,
    getBody: K,
    observe: o,
    syncAnnotations: w,
    unobserve: s,
    updateAnnotation: c,
    updateBody: G,
    updateTarget: (_, b = oe.LOCAL) => {
      const E = M(_);
      E && i(b, { updated: [E] });
    },
    upsertAnnotation: d
  };
};
let Fs = () => ({
  emit(e, ...t) {
    for (let n = this.events[e] || [], o = 0, s = n.length; o < s; o++)
      n[o](...t);
  },
  events: {},
  on(e, t) {
    var n;
    return ((n = this.events)[e] || (n[e] = [])).push(t), () => {
      var o;
      this.events[e] = (o = this.events[e]) == null ? void 0 : o.filter((s) => t !== s);
    };
  }
});
const zs = 250, qs = (e, t) => {
  const n = Fs(), o = (t == null ? void 0 : t.changes) || [];
  let s = t ? t.pointer : -1, i = !1, l = 0;
  const r = (m) => {
    if (!i) {
      const { changes: y } = m, A = performance.now();
      if (A - l > zs)
        o.splice(s + 1), o.push(y), s = o.length - 1;
      else {
        const w = o.length - 1;
        o[w] = Xs(o[w], y);
      }
      l = A;
    }
    i = !1;
  };
  e.observe(r, { origin: oe.LOCAL });
  const a = (m) => m && m.length > 0 && e.bulkDeleteAnnotations(m), c = (m) => m && m.length > 0 && e.bulkUpsertAnnotations(m), d = (m) => m && m.length > 0 && e.bulkUpdateAnnotations(m.map(({ oldValue: y }) => y)), u = (m) => m && m.length > 0 && e.bulkUpdateAnnotations(m.map(({ newValue: y }) => y)), h = (m) => m && m.length > 0 && e.bulkUpsertAnnotations(m), g = (m) => m && m.length > 0 && e.bulkDeleteAnnotations(m);
  return {
    canRedo: () => o.length - 1 > s,
    canUndo: () => s > -1,
    destroy: () => e.unobserve(r),
    getHistory: () => ({ changes: [...o], pointer: s }),
    on: (m, y) => n.on(m, y),
    redo: () => {
      if (o.length - 1 > s) {
        i = !0;
        const { created: m, updated: y, deleted: A } = o[s + 1];
        c(m), u(y), g(A), n.emit("redo", o[s + 1]), s += 1;
      }
    },
    undo: () => {
      if (s > -1) {
        i = !0;
        const { created: m, updated: y, deleted: A } = o[s];
        a(m), d(y), h(A), n.emit("undo", o[s]), s -= 1;
      }
    }
  };
}, Ks = () => {
  const e = /* @__PURE__ */ nn([]);
  return {
    subscribe: e.subscribe.bind(e),
    set: e.set.bind(e)
  };
}, Ws = (e, t, n, o) => {
  const { hover: s, selection: i, store: l, viewport: r } = e, a = /* @__PURE__ */ new Map();
  let c = [], d, u;
  const h = (w, v) => {
    a.has(w) ? a.get(w).push(v) : a.set(w, [v]);
  }, g = (w, v) => {
    const p = a.get(w);
    if (p) {
      const S = p.indexOf(v);
      S !== -1 && p.splice(S, 1);
    }
  }, m = (w, v, p) => {
    a.has(w) && setTimeout(() => {
      a.get(w).forEach((S) => {
        if (n) {
          const P = Array.isArray(v) ? v.map((L) => n.serialize(L)) : n.serialize(v), T = p ? p instanceof PointerEvent ? p : n.serialize(p) : void 0;
          S(P, T);
        } else
          S(v, p);
      });
    }, 1);
  }, y = () => {
    const { selected: w } = i, v = (w || []).map(({ id: p }) => l.getAnnotation(p));
    v.forEach((p) => {
      const S = c.find((P) => P.id === p.id);
      (!S || !Ue(S, p)) && m("updateAnnotation", p, S);
    }), c = c.map((p) => v.find(({ id: P }) => P === p.id) || p);
  };
  i.subscribe(({ selected: w }) => {
    if (!(c.length === 0 && w.length === 0)) {
      if (c.length === 0 && w.length > 0)
        c = w.map(({ id: v }) => l.getAnnotation(v));
      else if (c.length > 0 && w.length === 0)
        c.forEach((v) => {
          const p = l.getAnnotation(v.id);
          p && !Ue(p, v) && m("updateAnnotation", p, v);
        }), c = [];
      else {
        const v = new Set(c.map((S) => S.id)), p = new Set(w.map(({ id: S }) => S));
        c.filter((S) => !p.has(S.id)).forEach((S) => {
          const P = l.getAnnotation(S.id);
          P && !Ue(P, S) && m("updateAnnotation", P, S);
        }), c = [
          // Remove annotations that were deselected
          ...c.filter((S) => p.has(S.id)),
          // Add editable annotations that were selected
          ...w.filter(({ id: S }) => !v.has(S)).map(({ id: S }) => l.getAnnotation(S))
        ];
      }
      m("selectionChanged", c);
    }
  }), s.subscribe((w) => {
    !d && w ? m("mouseEnterAnnotation", l.getAnnotation(w)) : d && !w ? m("mouseLeaveAnnotation", l.getAnnotation(d)) : d && w && (m("mouseLeaveAnnotation", l.getAnnotation(d)), m("mouseEnterAnnotation", l.getAnnotation(w))), d = w;
  }), r == null || r.subscribe((w) => m("viewportIntersect", w.map((v) => l.getAnnotation(v)))), l.observe((w) => {
    o && (u && clearTimeout(u), u = setTimeout(y, 1e3));
    const { created: v, deleted: p } = w.changes;
    (v || []).forEach((S) => m("createAnnotation", S)), (p || []).forEach((S) => m("deleteAnnotation", S)), (w.changes.updated || []).filter((S) => [
      ...S.bodiesCreated || [],
      ...S.bodiesDeleted || [],
      ...S.bodiesUpdated || []
    ].length > 0).forEach(({ oldValue: S, newValue: P }) => {
      const T = c.find((L) => L.id === S.id) || S;
      c = c.map((L) => L.id === S.id ? P : L), m("updateAnnotation", P, T);
    });
  }, { origin: oe.LOCAL }), l.observe((w) => {
    if (c) {
      const v = new Set(c.map((S) => S.id)), p = (w.changes.updated || []).filter(({ newValue: S }) => v.has(S.id)).map(({ newValue: S }) => S);
      p.length > 0 && (c = c.map((S) => p.find((T) => T.id === S.id) || S));
    }
  }, { origin: oe.REMOTE });
  const A = (w) => (v) => {
    const { updated: p } = v;
    w ? (p || []).forEach((S) => m("updateAnnotation", S.oldValue, S.newValue)) : (p || []).forEach((S) => m("updateAnnotation", S.newValue, S.oldValue));
  };
  return t.on("undo", A(!0)), t.on("redo", A(!1)), { on: h, off: g, emit: m };
}, Zs = (e) => (t) => t.reduce((n, o) => {
  const { parsed: s, error: i } = e.parse(o);
  return i ? {
    parsed: n.parsed,
    failed: [...n.failed, o]
  } : s ? {
    parsed: [...n.parsed, s],
    failed: n.failed
  } : {
    ...n
  };
}, { parsed: [], failed: [] }), Js = (e, t, n) => {
  const { store: o, selection: s } = e, i = (w) => {
    if (n) {
      const { parsed: v, error: p } = n.parse(w);
      v ? o.addAnnotation(v, oe.REMOTE) : console.error(p);
    } else
      o.addAnnotation(Rt(w), oe.REMOTE);
  }, l = () => s.clear(), r = () => o.clear(), a = (w) => {
    const v = o.getAnnotation(w);
    return n && v ? n.serialize(v) : v;
  }, c = () => n ? o.all().map(n.serialize) : o.all(), d = () => {
    var w;
    const v = (((w = s.selected) == null ? void 0 : w.map((p) => p.id)) || []).map((p) => o.getAnnotation(p)).filter(Boolean);
    return n ? v.map(n.serialize) : v;
  }, u = (w, v = !0) => fetch(w).then((p) => p.json()).then((p) => (g(p, v), p)), h = (w) => {
    if (typeof w == "string") {
      const v = o.getAnnotation(w);
      if (o.deleteAnnotation(w), v)
        return n ? n.serialize(v) : v;
    } else {
      const v = n ? n.parse(w).parsed : w;
      if (v)
        return o.deleteAnnotation(v), w;
    }
  }, g = (w, v = !0) => {
    const p = v ? o.syncAnnotations : o.bulkUpsertAnnotations;
    if (n) {
      const S = n.parseAll || Zs(n), { parsed: P, failed: T } = S(w);
      T.length > 0 && console.warn(`Discarded ${T.length} invalid annotations`, T), p(P, oe.REMOTE);
    } else
      p(w.map(Rt), oe.REMOTE);
  }, m = (w, v) => {
    w ? s.setSelected(w, v) : s.clear();
  }, y = (w) => {
    s.setUserSelectAction(w);
  }, A = (w) => {
    if (n) {
      const v = n.parse(w).parsed, p = n.serialize(o.getAnnotation(v.id));
      return o.updateAnnotation(v), p;
    } else {
      const v = o.getAnnotation(w.id);
      return o.updateAnnotation(Rt(w)), v;
    }
  };
  return {
    addAnnotation: i,
    cancelSelected: l,
    canRedo: t.canRedo,
    canUndo: t.canUndo,
    clearAnnotations: r,
    getAnnotationById: a,
    getAnnotations: c,
    getHistory: t.getHistory,
    getSelected: d,
    loadAnnotations: u,
    redo: t.redo,
    removeAnnotation: h,
    setAnnotations: g,
    setSelected: m,
    setUserSelectAction: y,
    undo: t.undo,
    updateAnnotation: A
  };
}, al = (e, t, n) => typeof t == "function" ? t(e, n) : t, cl = (e, t) => typeof e != "function" && typeof t != "function" ? {
  ...e || {},
  ...t || {}
} : (n, o) => {
  const s = typeof e == "function" ? e(n, o) : e, i = typeof t == "function" ? t(n, o) : t;
  return {
    ...s || {},
    ...i || {}
  };
};
let Qs = "useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict", xs = (e) => crypto.getRandomValues(new Uint8Array(e)), $s = (e, t, n) => {
  let o = 256 - 256 % e.length;
  if (o === 256) {
    let i = e.length - 1;
    return (l = t) => {
      if (!l) return "";
      let r = "";
      for (; ; ) {
        let a = n(l), c = l;
        for (; c--; )
          if (r += e[a[c] & i], r.length >= l) return r;
      }
    };
  }
  let s = Math.ceil(1.6 * 256 * t / o);
  return (i = t) => {
    if (!i) return "";
    let l = "";
    for (; ; ) {
      let r = n(s), a = s;
      for (; a--; )
        if (r[a] < o && (l += e[r[a] % e.length], l.length >= i))
          return l;
    }
  };
}, ei = (e, t = 21) => $s(e, t | 0, xs), ti = (e = 21) => {
  let t = "", n = crypto.getRandomValues(new Uint8Array(e |= 0));
  for (; e--; )
    t += Qs[n[e] & 63];
  return t;
};
const ni = () => ({ isGuest: !0, id: ei("1234567890abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", 20)() }), oi = (e) => {
  const t = JSON.stringify(e);
  let n = 0;
  for (let o = 0, s = t.length; o < s; o++) {
    let i = t.charCodeAt(o);
    n = (n << 5) - n + i, n |= 0;
  }
  return `${n}`;
}, So = (e) => e ? typeof e == "object" ? { ...e } : e : void 0, si = (e, t) => (Array.isArray(e) ? e : [e]).map((n) => {
  const { id: o, type: s, purpose: i, value: l, created: r, modified: a, creator: c, ...d } = n;
  return {
    id: o || `temp-${oi(n)}`,
    annotation: t,
    type: s,
    purpose: i,
    value: l,
    creator: So(c),
    created: r ? new Date(r) : void 0,
    updated: a ? new Date(a) : void 0,
    ...d
  };
}), ii = (e) => e.map((t) => {
  var n;
  const { annotation: o, created: s, updated: i, ...l } = t, r = {
    ...l,
    created: s == null ? void 0 : s.toISOString(),
    modified: i == null ? void 0 : i.toISOString()
  };
  return (n = r.id) != null && n.startsWith("temp-") && delete r.id, r;
}), ri = [
  "#ff7c00",
  // orange
  "#1ac938",
  // green
  "#e8000b",
  // red
  "#8b2be2",
  // purple
  "#9f4800",
  // brown
  "#f14cc1",
  // pink
  "#ffc400",
  // khaki
  "#00d7ff",
  // cyan
  "#023eff"
  // blue
], fl = () => {
  const e = [...ri];
  return { assignRandomColor: () => {
    const t = Math.floor(Math.random() * e.length), n = e[t];
    return e.splice(t, 1), n;
  }, releaseColor: (t) => e.push(t) };
};
globalThis.ANNOTORIOUS_PRESENCE_KEY || (globalThis.ANNOTORIOUS_PRESENCE_KEY = ti());
const ul = (e, t = { strict: !0 }) => ({ parse: (s) => ai(s, t), serialize: (s) => ci(s, e, t) }), mn = (e) => (e == null ? void 0 : e.type) === "SvgSelector" || (e == null ? void 0 : e.type) === "FragmentSelector" || tn(e), li = (e) => {
  if (typeof e == "string")
    return tn(e);
  const t = Array.isArray(e.selector) ? e.selector.find(mn) : e.selector;
  return mn(t);
}, ai = (e, t = { strict: !0 }) => {
  const n = e.id || Eo(), {
    creator: o,
    created: s,
    modified: i,
    body: l,
    ...r
  } = e, a = si(l || [], n), c = Array.isArray(e.target) ? e.target.find(li) : e.target;
  if (!c)
    return {
      error: Error(`Unsupported target(s): ${JSON.stringify(c)}`)
    };
  const d = typeof c == "string" ? c : Array.isArray(c.selector) ? c.selector[0] : c.selector, u = tn(d) ? os(d, t.invertY) : (d == null ? void 0 : d.type) === "SvgSelector" ? ys(d) : void 0, h = Array.isArray(r.target) ? r.target[0] : r.targret;
  return u || !t.strict ? {
    parsed: {
      ...r,
      id: n,
      bodies: a,
      target: {
        created: s ? new Date(s) : void 0,
        creator: So(o),
        updated: i ? new Date(i) : void 0,
        // Note the target can be a string and we don't want to spread the characters...
        ...typeof h == "string" ? {} : h,
        annotation: n,
        selector: u || d
      }
    }
  } : {
    error: Error(`Invalid selector: ${JSON.stringify(d)}`)
  };
}, ci = (e, t, n = { strict: !0 }) => {
  const {
    selector: o,
    creator: s,
    created: i,
    updated: l,
    updatedBy: r,
    // Excluded from serialization
    ...a
  } = e.target;
  let c;
  try {
    o.type === x.RECTANGLE && !o.geometry.rot ? c = ss(o.geometry) : c = Es(o);
  } catch (u) {
    if (n.strict)
      throw u;
    c = o;
  }
  const d = {
    ...e,
    "@context": "http://www.w3.org/ns/anno.jsonld",
    id: e.id,
    type: "Annotation",
    body: ii(e.bodies),
    created: i == null ? void 0 : i.toISOString(),
    creator: s,
    modified: l == null ? void 0 : l.toISOString(),
    target: {
      ...a,
      source: t,
      type: "SpecificResource",
      selector: c
    }
  };
  return delete d.bodies, typeof d.target != "string" && "annotation" in d.target && delete d.target.annotation, d;
}, fi = (e, t) => {
  const { left: n, top: o, width: s, height: i } = e.getBoundingClientRect();
  return [
    (t.clientX - n) * (e.clientWidth / s),
    (t.clientY - o) * (e.clientHeight / i)
  ];
}, We = [];
function ui(e, t = $) {
  let n;
  const o = /* @__PURE__ */ new Set();
  function s(r) {
    if (ae(e, r) && (e = r, n)) {
      const a = !We.length;
      for (const c of o)
        c[1](), We.push(c, e);
      if (a) {
        for (let c = 0; c < We.length; c += 2)
          We[c][0](We[c + 1]);
        We.length = 0;
      }
    }
  }
  function i(r) {
    s(r(e));
  }
  function l(r, a = $) {
    const c = [r, a];
    return o.add(c), o.size === 1 && (n = t(s, i) || $), r(e), () => {
      o.delete(c), o.size === 0 && n && (n(), n = null);
    };
  }
  return { set: s, update: i, subscribe: l };
}
const di = (e, t) => {
  const { naturalWidth: n, naturalHeight: o } = e;
  if (!n && !o) {
    const { width: s, height: i } = e;
    t.setAttribute("viewBox", `0 0 ${s} ${i}`), e.addEventListener("load", (l) => {
      const r = l.target;
      t.setAttribute("viewBox", `0 0 ${r.naturalWidth} ${r.naturalHeight}`);
    });
  } else
    t.setAttribute("viewBox", `0 0 ${n} ${o}`);
}, hi = (e, t) => {
  di(e, t);
  const { subscribe: n, set: o } = ui(1);
  let s;
  return window.ResizeObserver && (s = new ResizeObserver(() => {
    const l = t.getBoundingClientRect(), { width: r, height: a } = t.viewBox.baseVal, c = Math.max(
      l.width / r,
      l.height / a
    );
    o(c);
  }), s.observe(t.parentElement)), { destroy: () => {
    s && s.disconnect();
  }, subscribe: n };
}, qe = (e, t, n) => {
  const o = typeof t == "function" ? t(e, n) : t;
  if (o) {
    const { fill: s, fillOpacity: i, stroke: l, strokeWidth: r, strokeOpacity: a } = o;
    let c = "";
    return s && (c += `fill:${s};`), i || i === 0 ? c += `fill-opacity:${i};` : s && (c += "fill-opacity:0.25;"), l && (c += `stroke:${l};`, c += `stroke-width:${r || "1"};`, c += `stroke-opacity:${a || "1"};`), c;
  }
}, Mt = (e, t = 0) => {
  const { minX: n, minY: o, maxX: s, maxY: i } = e;
  return {
    x: n - t,
    y: o - t,
    w: s - n + 2 * t,
    h: i - o + 2 * t
  };
}, Ie = typeof window > "u" || typeof navigator > "u" ? !1 : "ontouchstart" in window || navigator.maxTouchPoints > 0 || // @ts-ignore
navigator.msMaxTouchPoints > 0, gi = (e) => ({}), pn = (e) => ({ grab: (
  /*onGrab*/
  e[0]
) });
function mi(e) {
  let t, n, o, s;
  const i = (
    /*#slots*/
    e[8].default
  ), l = Ro(
    i,
    e,
    /*$$scope*/
    e[7],
    pn
  );
  return {
    c() {
      t = O("g"), l && l.c(), f(t, "class", "a9s-annotation selected");
    },
    m(r, a) {
      Y(r, t, a), l && l.m(t, null), n = !0, o || (s = [
        Q(
          t,
          "pointerup",
          /*onRelease*/
          e[2]
        ),
        Q(
          t,
          "pointermove",
          /*onPointerMove*/
          e[1]
        )
      ], o = !0);
    },
    p(r, [a]) {
      l && l.p && (!n || a & /*$$scope*/
      128) && Yo(
        l,
        i,
        r,
        /*$$scope*/
        r[7],
        n ? Bo(
          i,
          /*$$scope*/
          r[7],
          a,
          gi
        ) : Uo(
          /*$$scope*/
          r[7]
        ),
        pn
      );
    },
    i(r) {
      n || (H(l, r), n = !0);
    },
    o(r) {
      F(l, r), n = !1;
    },
    d(r) {
      r && B(t), l && l.d(r), o = !1, Ae(s);
    }
  };
}
function pi(e, t, n) {
  let { $$slots: o = {}, $$scope: s } = t;
  const i = He();
  let { shape: l } = t, { editor: r } = t, { transform: a } = t, { svgEl: c } = t, d, u, h;
  const g = (A) => (w) => {
    if (d = A, c) {
      const [p, S] = fi(c, w);
      u = a.elementToImage(p, S);
    } else {
      const { offsetX: p, offsetY: S } = w;
      u = a.elementToImage(p, S);
    }
    h = l, w.target.setPointerCapture(w.pointerId), i("grab", w);
  }, m = (A) => {
    if (d) {
      const [w, v] = a.elementToImage(A.offsetX, A.offsetY), p = [w - u[0], v - u[1]];
      n(3, l = r(h, d, p)), i("change", l);
    }
  }, y = (A) => {
    A.target.releasePointerCapture(A.pointerId), d = void 0, h = l, i("release", A);
  };
  return e.$$set = (A) => {
    "shape" in A && n(3, l = A.shape), "editor" in A && n(4, r = A.editor), "transform" in A && n(5, a = A.transform), "svgEl" in A && n(6, c = A.svgEl), "$$scope" in A && n(7, s = A.$$scope);
  }, [
    g,
    m,
    y,
    l,
    r,
    a,
    c,
    s,
    o
  ];
}
class sn extends pe {
  constructor(t) {
    super(), me(this, t, pi, mi, ae, {
      shape: 3,
      editor: 4,
      transform: 5,
      svgEl: 6
    });
  }
}
function _i(e) {
  let t, n, o, s, i, l, r, a, c = (
    /*selected*/
    e[3] && _n(e)
  );
  return {
    c() {
      t = O("g"), n = O("circle"), c && c.c(), s = O("circle"), f(n, "class", "a9s-handle-buffer svelte-qtyc7s"), f(
        n,
        "cx",
        /*x*/
        e[0]
      ), f(
        n,
        "cy",
        /*y*/
        e[1]
      ), f(n, "r", o = /*handleRadius*/
      e[5] + 6 / /*scale*/
      e[2]), f(n, "role", "button"), f(n, "tabindex", "0"), f(s, "class", i = xe(`a9s-handle-dot${/*selected*/
      e[3] ? " selected" : ""}`) + " svelte-qtyc7s"), f(
        s,
        "cx",
        /*x*/
        e[0]
      ), f(
        s,
        "cy",
        /*y*/
        e[1]
      ), f(
        s,
        "r",
        /*handleRadius*/
        e[5]
      ), f(t, "class", l = `a9s-handle ${/*$$props*/
      e[8].class || ""}`.trim());
    },
    m(d, u) {
      Y(d, t, u), z(t, n), c && c.m(t, null), z(t, s), r || (a = [
        Q(
          n,
          "dblclick",
          /*dblclick_handler_1*/
          e[12]
        ),
        Q(
          n,
          "pointerenter",
          /*pointerenter_handler*/
          e[13]
        ),
        Q(
          n,
          "pointerleave",
          /*pointerleave_handler*/
          e[14]
        ),
        Q(
          n,
          "pointerdown",
          /*pointerdown_handler_1*/
          e[15]
        ),
        Q(
          n,
          "pointerdown",
          /*onPointerDown*/
          e[6]
        ),
        Q(
          n,
          "pointerup",
          /*pointerup_handler_1*/
          e[16]
        ),
        Q(
          n,
          "pointerup",
          /*onPointerUp*/
          e[7]
        )
      ], r = !0);
    },
    p(d, u) {
      u & /*x*/
      1 && f(
        n,
        "cx",
        /*x*/
        d[0]
      ), u & /*y*/
      2 && f(
        n,
        "cy",
        /*y*/
        d[1]
      ), u & /*handleRadius, scale*/
      36 && o !== (o = /*handleRadius*/
      d[5] + 6 / /*scale*/
      d[2]) && f(n, "r", o), /*selected*/
      d[3] ? c ? c.p(d, u) : (c = _n(d), c.c(), c.m(t, s)) : c && (c.d(1), c = null), u & /*selected*/
      8 && i !== (i = xe(`a9s-handle-dot${/*selected*/
      d[3] ? " selected" : ""}`) + " svelte-qtyc7s") && f(s, "class", i), u & /*x*/
      1 && f(
        s,
        "cx",
        /*x*/
        d[0]
      ), u & /*y*/
      2 && f(
        s,
        "cy",
        /*y*/
        d[1]
      ), u & /*handleRadius*/
      32 && f(
        s,
        "r",
        /*handleRadius*/
        d[5]
      ), u & /*$$props*/
      256 && l !== (l = `a9s-handle ${/*$$props*/
      d[8].class || ""}`.trim()) && f(t, "class", l);
    },
    d(d) {
      d && B(t), c && c.d(), r = !1, Ae(a);
    }
  };
}
function yi(e) {
  let t, n, o, s, i, l, r, a, c;
  return {
    c() {
      t = O("g"), n = O("circle"), s = O("circle"), l = O("circle"), f(
        n,
        "cx",
        /*x*/
        e[0]
      ), f(
        n,
        "cy",
        /*y*/
        e[1]
      ), f(n, "r", o = /*handleRadius*/
      e[5] * 10), f(n, "class", "a9s-touch-halo"), Te(
        n,
        "touched",
        /*touched*/
        e[4]
      ), f(
        s,
        "cx",
        /*x*/
        e[0]
      ), f(
        s,
        "cy",
        /*y*/
        e[1]
      ), f(s, "r", i = /*handleRadius*/
      e[5] + 10 / /*scale*/
      e[2]), f(s, "class", "a9s-handle-buffer svelte-qtyc7s"), f(s, "role", "button"), f(s, "tabindex", "0"), f(l, "class", "a9s-handle-dot"), f(
        l,
        "cx",
        /*x*/
        e[0]
      ), f(
        l,
        "cy",
        /*y*/
        e[1]
      ), f(l, "r", r = /*handleRadius*/
      e[5] + 2 / /*scale*/
      e[2]), f(t, "class", "a9s-touch-handle");
    },
    m(d, u) {
      Y(d, t, u), z(t, n), z(t, s), z(t, l), a || (c = [
        Q(
          s,
          "dblclick",
          /*dblclick_handler*/
          e[9]
        ),
        Q(
          s,
          "pointerdown",
          /*pointerdown_handler*/
          e[10]
        ),
        Q(
          s,
          "pointerdown",
          /*onPointerDown*/
          e[6]
        ),
        Q(
          s,
          "pointerup",
          /*pointerup_handler*/
          e[11]
        ),
        Q(
          s,
          "pointerup",
          /*onPointerUp*/
          e[7]
        )
      ], a = !0);
    },
    p(d, u) {
      u & /*x*/
      1 && f(
        n,
        "cx",
        /*x*/
        d[0]
      ), u & /*y*/
      2 && f(
        n,
        "cy",
        /*y*/
        d[1]
      ), u & /*handleRadius*/
      32 && o !== (o = /*handleRadius*/
      d[5] * 10) && f(n, "r", o), u & /*touched*/
      16 && Te(
        n,
        "touched",
        /*touched*/
        d[4]
      ), u & /*x*/
      1 && f(
        s,
        "cx",
        /*x*/
        d[0]
      ), u & /*y*/
      2 && f(
        s,
        "cy",
        /*y*/
        d[1]
      ), u & /*handleRadius, scale*/
      36 && i !== (i = /*handleRadius*/
      d[5] + 10 / /*scale*/
      d[2]) && f(s, "r", i), u & /*x*/
      1 && f(
        l,
        "cx",
        /*x*/
        d[0]
      ), u & /*y*/
      2 && f(
        l,
        "cy",
        /*y*/
        d[1]
      ), u & /*handleRadius, scale*/
      36 && r !== (r = /*handleRadius*/
      d[5] + 2 / /*scale*/
      d[2]) && f(l, "r", r);
    },
    d(d) {
      d && B(t), a = !1, Ae(c);
    }
  };
}
function _n(e) {
  let t, n;
  return {
    c() {
      t = O("circle"), f(t, "class", "a9s-handle-selected"), f(
        t,
        "cx",
        /*x*/
        e[0]
      ), f(
        t,
        "cy",
        /*y*/
        e[1]
      ), f(t, "r", n = /*handleRadius*/
      e[5] + 8 / /*scale*/
      e[2]);
    },
    m(o, s) {
      Y(o, t, s);
    },
    p(o, s) {
      s & /*x*/
      1 && f(
        t,
        "cx",
        /*x*/
        o[0]
      ), s & /*y*/
      2 && f(
        t,
        "cy",
        /*y*/
        o[1]
      ), s & /*handleRadius, scale*/
      36 && n !== (n = /*handleRadius*/
      o[5] + 8 / /*scale*/
      o[2]) && f(t, "r", n);
    },
    d(o) {
      o && B(t);
    }
  };
}
function wi(e) {
  let t;
  function n(i, l) {
    return Ie ? yi : _i;
  }
  let s = n()(e);
  return {
    c() {
      s.c(), t = Se();
    },
    m(i, l) {
      s.m(i, l), Y(i, t, l);
    },
    p(i, [l]) {
      s.p(i, l);
    },
    i: $,
    o: $,
    d(i) {
      i && B(t), s.d(i);
    }
  };
}
function bi(e, t, n) {
  let o, { x: s } = t, { y: i } = t, { scale: l } = t, { selected: r = void 0 } = t, a = !1;
  const c = (p) => {
    p.pointerType === "touch" && n(4, a = !0);
  }, d = () => n(4, a = !1);
  function u(p) {
    ue.call(this, e, p);
  }
  function h(p) {
    ue.call(this, e, p);
  }
  function g(p) {
    ue.call(this, e, p);
  }
  function m(p) {
    ue.call(this, e, p);
  }
  function y(p) {
    ue.call(this, e, p);
  }
  function A(p) {
    ue.call(this, e, p);
  }
  function w(p) {
    ue.call(this, e, p);
  }
  function v(p) {
    ue.call(this, e, p);
  }
  return e.$$set = (p) => {
    n(8, t = Kt(Kt({}, t), cn(p))), "x" in p && n(0, s = p.x), "y" in p && n(1, i = p.y), "scale" in p && n(2, l = p.scale), "selected" in p && n(3, r = p.selected);
  }, e.$$.update = () => {
    e.$$.dirty & /*scale*/
    4 && n(5, o = 4 / l);
  }, t = cn(t), [
    s,
    i,
    l,
    r,
    a,
    o,
    c,
    d,
    t,
    u,
    h,
    g,
    m,
    y,
    A,
    w,
    v
  ];
}
class je extends pe {
  constructor(t) {
    super(), me(this, t, bi, wi, ae, { x: 0, y: 1, scale: 2, selected: 3 });
  }
}
function Ei(e) {
  let t, n, o, s, i, l, r;
  return {
    c() {
      t = O("g"), n = O("circle"), s = O("circle"), i = O("circle"), f(n, "class", "a9s-polygon-midpoint-buffer svelte-12ykj76"), f(
        n,
        "cx",
        /*x*/
        e[0]
      ), f(
        n,
        "cy",
        /*y*/
        e[1]
      ), f(n, "r", o = 1.75 * /*handleRadius*/
      e[2]), f(s, "class", "a9s-polygon-midpoint-outer svelte-12ykj76"), f(
        s,
        "cx",
        /*x*/
        e[0]
      ), f(
        s,
        "cy",
        /*y*/
        e[1]
      ), f(
        s,
        "r",
        /*handleRadius*/
        e[2]
      ), f(i, "class", "a9s-polygon-midpoint-inner svelte-12ykj76"), f(
        i,
        "cx",
        /*x*/
        e[0]
      ), f(
        i,
        "cy",
        /*y*/
        e[1]
      ), f(
        i,
        "r",
        /*handleRadius*/
        e[2]
      ), f(t, "class", "a9s-polygon-midpoint svelte-12ykj76");
    },
    m(a, c) {
      Y(a, t, c), z(t, n), z(t, s), z(t, i), l || (r = [
        Q(
          n,
          "pointerdown",
          /*pointerdown_handler*/
          e[5]
        ),
        Q(
          n,
          "pointerdown",
          /*onPointerDown*/
          e[3]
        )
      ], l = !0);
    },
    p(a, c) {
      c & /*x*/
      1 && f(
        n,
        "cx",
        /*x*/
        a[0]
      ), c & /*y*/
      2 && f(
        n,
        "cy",
        /*y*/
        a[1]
      ), c & /*handleRadius*/
      4 && o !== (o = 1.75 * /*handleRadius*/
      a[2]) && f(n, "r", o), c & /*x*/
      1 && f(
        s,
        "cx",
        /*x*/
        a[0]
      ), c & /*y*/
      2 && f(
        s,
        "cy",
        /*y*/
        a[1]
      ), c & /*handleRadius*/
      4 && f(
        s,
        "r",
        /*handleRadius*/
        a[2]
      ), c & /*x*/
      1 && f(
        i,
        "cx",
        /*x*/
        a[0]
      ), c & /*y*/
      2 && f(
        i,
        "cy",
        /*y*/
        a[1]
      ), c & /*handleRadius*/
      4 && f(
        i,
        "r",
        /*handleRadius*/
        a[2]
      );
    },
    d(a) {
      a && B(t), l = !1, Ae(r);
    }
  };
}
function vi(e) {
  let t;
  return {
    c() {
      t = O("circle"), f(
        t,
        "cx",
        /*x*/
        e[0]
      ), f(
        t,
        "cy",
        /*y*/
        e[1]
      ), f(
        t,
        "r",
        /*handleRadius*/
        e[2]
      );
    },
    m(n, o) {
      Y(n, t, o);
    },
    p(n, o) {
      o & /*x*/
      1 && f(
        t,
        "cx",
        /*x*/
        n[0]
      ), o & /*y*/
      2 && f(
        t,
        "cy",
        /*y*/
        n[1]
      ), o & /*handleRadius*/
      4 && f(
        t,
        "r",
        /*handleRadius*/
        n[2]
      );
    },
    d(n) {
      n && B(t);
    }
  };
}
function Ai(e) {
  let t;
  function n(i, l) {
    return Ie ? vi : Ei;
  }
  let s = n()(e);
  return {
    c() {
      s.c(), t = Se();
    },
    m(i, l) {
      s.m(i, l), Y(i, t, l);
    },
    p(i, [l]) {
      s.p(i, l);
    },
    i: $,
    o: $,
    d(i) {
      i && B(t), s.d(i);
    }
  };
}
function Si(e, t, n) {
  let o, { x: s } = t, { y: i } = t, { scale: l } = t;
  const r = (c) => {
    c.pointerType;
  };
  function a(c) {
    ue.call(this, e, c);
  }
  return e.$$set = (c) => {
    "x" in c && n(0, s = c.x), "y" in c && n(1, i = c.y), "scale" in c && n(4, l = c.scale);
  }, e.$$.update = () => {
    e.$$.dirty & /*scale*/
    16 && n(2, o = 4 / l);
  }, [s, i, o, r, l, a];
}
class Mo extends pe {
  constructor(t) {
    super(), me(this, t, Si, Ai, ae, { x: 0, y: 1, scale: 4 });
  }
}
function Yt(e) {
  const t = e.slice(), n = (
    /*midpoints*/
    t[10][
      /*visibleMidpoint*/
      t[6]
    ]
  );
  return t[28] = n.point, t;
}
function yn(e, t, n) {
  const o = e.slice();
  return o[28] = t[n], o[30] = n, o;
}
function Ut(e) {
  const t = e.slice(), n = (
    /*midpoints*/
    t[10][
      /*visibleMidpoint*/
      t[6]
    ]
  );
  return t[28] = n.point, t;
}
function Vt(e) {
  const t = e.slice(), n = (
    /*midpoints*/
    t[10][
      /*visibleMidpoint*/
      t[6]
    ]
  );
  return t[28] = n.point, t;
}
function wn(e) {
  let t, n, o, s;
  return {
    c() {
      t = O("circle"), f(t, "cx", n = /*point*/
      e[28][0]), f(t, "cy", o = /*point*/
      e[28][1]), f(t, "r", s = rt / /*viewportScale*/
      e[3]), f(t, "class", "svelte-1h2slbm");
    },
    m(i, l) {
      Y(i, t, l);
    },
    p(i, l) {
      l[0] & /*midpoints, visibleMidpoint*/
      1088 && n !== (n = /*point*/
      i[28][0]) && f(t, "cx", n), l[0] & /*midpoints, visibleMidpoint*/
      1088 && o !== (o = /*point*/
      i[28][1]) && f(t, "cy", o), l[0] & /*viewportScale*/
      8 && s !== (s = rt / /*viewportScale*/
      i[3]) && f(t, "r", s);
    },
    d(i) {
      i && B(t);
    }
  };
}
function bn(e) {
  let t, n, o, s, i, l, r, a, c, d;
  return {
    c() {
      t = O("mask"), n = O("rect"), r = O("circle"), f(n, "x", o = /*mask*/
      e[9].x), f(n, "y", s = /*mask*/
      e[9].y), f(n, "width", i = /*mask*/
      e[9].w), f(n, "height", l = /*mask*/
      e[9].h), f(n, "class", "svelte-1h2slbm"), f(r, "cx", a = /*point*/
      e[28][0]), f(r, "cy", c = /*point*/
      e[28][1]), f(r, "r", d = rt / /*viewportScale*/
      e[3]), f(r, "class", "svelte-1h2slbm"), f(t, "id", `${/*maskId*/
      e[19]}-inner`), f(t, "class", "a9s-polygon-editor-mask svelte-1h2slbm");
    },
    m(u, h) {
      Y(u, t, h), z(t, n), z(t, r);
    },
    p(u, h) {
      h[0] & /*mask*/
      512 && o !== (o = /*mask*/
      u[9].x) && f(n, "x", o), h[0] & /*mask*/
      512 && s !== (s = /*mask*/
      u[9].y) && f(n, "y", s), h[0] & /*mask*/
      512 && i !== (i = /*mask*/
      u[9].w) && f(n, "width", i), h[0] & /*mask*/
      512 && l !== (l = /*mask*/
      u[9].h) && f(n, "height", l), h[0] & /*midpoints, visibleMidpoint*/
      1088 && a !== (a = /*point*/
      u[28][0]) && f(r, "cx", a), h[0] & /*midpoints, visibleMidpoint*/
      1088 && c !== (c = /*point*/
      u[28][1]) && f(r, "cy", c), h[0] & /*viewportScale*/
      8 && d !== (d = rt / /*viewportScale*/
      u[3]) && f(r, "r", d);
    },
    d(u) {
      u && B(t);
    }
  };
}
function En(e) {
  let t, n;
  return t = new je({
    props: {
      class: "a9s-corner-handle",
      x: (
        /*point*/
        e[28][0]
      ),
      y: (
        /*point*/
        e[28][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      ),
      selected: (
        /*selectedCorners*/
        e[8].includes(
          /*idx*/
          e[30]
        )
      )
    }
  }), t.$on(
    "pointerenter",
    /*onEnterHandle*/
    e[11]
  ), t.$on(
    "pointerleave",
    /*onLeaveHandle*/
    e[12]
  ), t.$on(
    "pointerdown",
    /*onHandlePointerDown*/
    e[15]
  ), t.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[27](`HANDLE-${/*idx*/
      e[30]}`)
    ) && e[27](`HANDLE-${/*idx*/
    e[30]}`).apply(this, arguments);
  }), t.$on(
    "pointerup",
    /*onHandlePointerUp*/
    e[16](
      /*idx*/
      e[30]
    )
  ), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      e = o;
      const i = {};
      s[0] & /*geom*/
      32 && (i.x = /*point*/
      e[28][0]), s[0] & /*geom*/
      32 && (i.y = /*point*/
      e[28][1]), s[0] & /*viewportScale*/
      8 && (i.scale = /*viewportScale*/
      e[3]), s[0] & /*selectedCorners*/
      256 && (i.selected = /*selectedCorners*/
      e[8].includes(
        /*idx*/
        e[30]
      )), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function vn(e) {
  let t, n;
  return t = new Mo({
    props: {
      x: (
        /*point*/
        e[28][0]
      ),
      y: (
        /*point*/
        e[28][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), t.$on("pointerdown", function() {
    ie(
      /*onAddPoint*/
      e[18](
        /*visibleMidpoint*/
        e[6]
      )
    ) && e[18](
      /*visibleMidpoint*/
      e[6]
    ).apply(this, arguments);
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      e = o;
      const i = {};
      s[0] & /*midpoints, visibleMidpoint*/
      1088 && (i.x = /*point*/
      e[28][0]), s[0] & /*midpoints, visibleMidpoint*/
      1088 && (i.y = /*point*/
      e[28][1]), s[0] & /*viewportScale*/
      8 && (i.scale = /*viewportScale*/
      e[3]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Mi(e) {
  let t, n, o, s, i, l, r, a, c, d, u, h, g, m, y, A, w, v, p, S, P, T = (
    /*visibleMidpoint*/
    e[6] !== void 0 && !/*isHandleHovered*/
    e[7] && wn(Vt(e))
  ), L = (
    /*visibleMidpoint*/
    e[6] !== void 0 && !/*isHandleHovered*/
    e[7] && bn(Ut(e))
  ), D = Ee(
    /*geom*/
    e[5].points
  ), I = [];
  for (let G = 0; G < D.length; G += 1)
    I[G] = En(yn(e, D, G));
  const K = (G) => F(I[G], 1, 1, () => {
    I[G] = null;
  });
  let X = (
    /*visibleMidpoint*/
    e[6] !== void 0 && !/*isHandleHovered*/
    e[7] && vn(Yt(e))
  );
  return {
    c() {
      t = O("defs"), n = O("mask"), o = O("rect"), a = O("polygon"), T && T.c(), L && L.c(), d = _e(), u = O("polygon"), g = _e(), m = O("polygon"), A = _e();
      for (let G = 0; G < I.length; G += 1)
        I[G].c();
      w = _e(), X && X.c(), v = Se(), f(o, "x", s = /*mask*/
      e[9].x), f(o, "y", i = /*mask*/
      e[9].y), f(o, "width", l = /*mask*/
      e[9].w), f(o, "height", r = /*mask*/
      e[9].h), f(o, "class", "svelte-1h2slbm"), f(a, "points", c = /*geom*/
      e[5].points.map(An).join(" ")), f(a, "class", "svelte-1h2slbm"), f(n, "id", `${/*maskId*/
      e[19]}-outer`), f(n, "class", "a9s-polygon-editor-mask svelte-1h2slbm"), f(u, "class", "a9s-outer"), f(u, "mask", `url(#${/*maskId*/
      e[19]}-outer)`), f(u, "points", h = /*geom*/
      e[5].points.map(Sn).join(" ")), f(m, "class", "a9s-inner a9s-shape-handle"), f(m, "mask", `url(#${/*maskId*/
      e[19]}-inner)`), f(
        m,
        "style",
        /*computedStyle*/
        e[1]
      ), f(m, "points", y = /*geom*/
      e[5].points.map(Mn).join(" "));
    },
    m(G, N) {
      Y(G, t, N), z(t, n), z(n, o), z(n, a), T && T.m(n, null), L && L.m(t, null), Y(G, d, N), Y(G, u, N), Y(G, g, N), Y(G, m, N), Y(G, A, N);
      for (let M = 0; M < I.length; M += 1)
        I[M] && I[M].m(G, N);
      Y(G, w, N), X && X.m(G, N), Y(G, v, N), p = !0, S || (P = [
        Q(
          u,
          "pointerup",
          /*onShapePointerUp*/
          e[14]
        ),
        Q(u, "pointerdown", function() {
          ie(
            /*grab*/
            e[27]("SHAPE")
          ) && e[27]("SHAPE").apply(this, arguments);
        }),
        Q(
          m,
          "pointermove",
          /*onPointerMove*/
          e[13]
        ),
        Q(
          m,
          "pointerup",
          /*onShapePointerUp*/
          e[14]
        ),
        Q(m, "pointerdown", function() {
          ie(
            /*grab*/
            e[27]("SHAPE")
          ) && e[27]("SHAPE").apply(this, arguments);
        })
      ], S = !0);
    },
    p(G, N) {
      if (e = G, (!p || N[0] & /*mask*/
      512 && s !== (s = /*mask*/
      e[9].x)) && f(o, "x", s), (!p || N[0] & /*mask*/
      512 && i !== (i = /*mask*/
      e[9].y)) && f(o, "y", i), (!p || N[0] & /*mask*/
      512 && l !== (l = /*mask*/
      e[9].w)) && f(o, "width", l), (!p || N[0] & /*mask*/
      512 && r !== (r = /*mask*/
      e[9].h)) && f(o, "height", r), (!p || N[0] & /*geom*/
      32 && c !== (c = /*geom*/
      e[5].points.map(An).join(" "))) && f(a, "points", c), /*visibleMidpoint*/
      e[6] !== void 0 && !/*isHandleHovered*/
      e[7] ? T ? T.p(Vt(e), N) : (T = wn(Vt(e)), T.c(), T.m(n, null)) : T && (T.d(1), T = null), /*visibleMidpoint*/
      e[6] !== void 0 && !/*isHandleHovered*/
      e[7] ? L ? L.p(Ut(e), N) : (L = bn(Ut(e)), L.c(), L.m(t, null)) : L && (L.d(1), L = null), (!p || N[0] & /*geom*/
      32 && h !== (h = /*geom*/
      e[5].points.map(Sn).join(" "))) && f(u, "points", h), (!p || N[0] & /*computedStyle*/
      2) && f(
        m,
        "style",
        /*computedStyle*/
        e[1]
      ), (!p || N[0] & /*geom*/
      32 && y !== (y = /*geom*/
      e[5].points.map(Mn).join(" "))) && f(m, "points", y), N[0] & /*geom, viewportScale, selectedCorners, onEnterHandle, onLeaveHandle, onHandlePointerDown, grab, onHandlePointerUp*/
      134322472) {
        D = Ee(
          /*geom*/
          e[5].points
        );
        let M;
        for (M = 0; M < D.length; M += 1) {
          const _ = yn(e, D, M);
          I[M] ? (I[M].p(_, N), H(I[M], 1)) : (I[M] = En(_), I[M].c(), H(I[M], 1), I[M].m(w.parentNode, w));
        }
        for (ye(), M = D.length; M < I.length; M += 1)
          K(M);
        we();
      }
      /*visibleMidpoint*/
      e[6] !== void 0 && !/*isHandleHovered*/
      e[7] ? X ? (X.p(Yt(e), N), N[0] & /*visibleMidpoint, isHandleHovered*/
      192 && H(X, 1)) : (X = vn(Yt(e)), X.c(), H(X, 1), X.m(v.parentNode, v)) : X && (ye(), F(X, 1, 1, () => {
        X = null;
      }), we());
    },
    i(G) {
      if (!p) {
        for (let N = 0; N < D.length; N += 1)
          H(I[N]);
        H(X), p = !0;
      }
    },
    o(G) {
      I = I.filter(Boolean);
      for (let N = 0; N < I.length; N += 1)
        F(I[N]);
      F(X), p = !1;
    },
    d(G) {
      G && (B(t), B(d), B(u), B(g), B(m), B(A), B(w), B(v)), T && T.d(), L && L.d(), ze(I, G), X && X.d(G), S = !1, Ae(P);
    }
  };
}
function ki(e) {
  let t, n;
  return t = new sn({
    props: {
      shape: (
        /*shape*/
        e[0]
      ),
      transform: (
        /*transform*/
        e[2]
      ),
      editor: (
        /*editor*/
        e[17]
      ),
      svgEl: (
        /*svgEl*/
        e[4]
      ),
      $$slots: {
        default: [
          Mi,
          ({ grab: o }) => ({ 27: o }),
          ({ grab: o }) => [o ? 134217728 : 0]
        ]
      },
      $$scope: { ctx: e }
    }
  }), t.$on(
    "change",
    /*change_handler*/
    e[20]
  ), t.$on(
    "grab",
    /*grab_handler*/
    e[21]
  ), t.$on(
    "release",
    /*release_handler*/
    e[22]
  ), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*shape*/
      1 && (i.shape = /*shape*/
      o[0]), s[0] & /*transform*/
      4 && (i.transform = /*transform*/
      o[2]), s[0] & /*svgEl*/
      16 && (i.svgEl = /*svgEl*/
      o[4]), s[0] & /*midpoints, visibleMidpoint, viewportScale, isHandleHovered, geom, selectedCorners, grab, computedStyle, mask*/
      134219754 | s[1] & /*$$scope*/
      1 && (i.$$scope = { dirty: s, ctx: o }), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
const Pi = 250, Ti = 1e3, Li = 12, rt = 4.5, An = (e) => e.join(","), Sn = (e) => e.join(","), Mn = (e) => e.join(",");
function Ii(e, t, n) {
  let o, s, i;
  const l = He();
  let { shape: r } = t, { computedStyle: a } = t, { transform: c } = t, { viewportScale: d = 1 } = t, { svgEl: u } = t, h, g = !1, m, y = [];
  const A = () => n(7, g = !0), w = () => n(7, g = !1), v = (M) => {
    if (y.length > 0 || !s.some((j) => j.visible)) {
      n(6, h = void 0);
      return;
    }
    const [_, b] = c.elementToImage(M.offsetX, M.offsetY), E = (j) => Math.pow(j[0] - _, 2) + Math.pow(j[1] - b, 2), k = o.points.reduce((j, Z) => E(Z) < E(j) ? Z : j), V = s.filter((j) => j.visible).reduce((j, Z) => E(Z.point) < E(j.point) ? Z : j), C = Math.pow(Ti / d, 2);
    E(k) < C || E(V.point) < C ? n(6, h = s.indexOf(V)) : n(6, h = void 0);
  }, p = () => {
    document.activeElement !== u && u.focus();
  }, S = () => {
    n(8, y = []), p();
  }, P = (M) => {
    n(7, g = !0), M.preventDefault(), M.stopPropagation(), m = performance.now();
  }, T = (M) => (_) => {
    if (!m || Ie || performance.now() - m > Pi) return;
    const b = y.includes(M);
    _.metaKey || _.ctrlKey || _.shiftKey ? b ? n(8, y = y.filter((E) => E !== M)) : n(8, y = [...y, M]) : b && y.length > 1 ? n(8, y = [M]) : b ? n(8, y = []) : n(8, y = [M]), p();
  }, L = (M, _, b) => {
    p();
    let E;
    const k = M.geometry;
    y.length > 1 ? E = k.points.map(([C, q], j) => y.includes(j) ? [C + b[0], q + b[1]] : [C, q]) : _ === "SHAPE" ? E = k.points.map(([C, q]) => [C + b[0], q + b[1]]) : E = k.points.map(([C, q], j) => _ === `HANDLE-${j}` ? [C + b[0], q + b[1]] : [C, q]);
    const V = fe(E);
    return { ...M, geometry: { points: E, bounds: V } };
  }, D = (M) => async (_) => {
    _.stopPropagation();
    const b = [
      ...o.points.slice(0, M + 1),
      s[M].point,
      ...o.points.slice(M + 1)
    ], E = fe(b);
    l("change", { ...r, geometry: { points: b, bounds: E } }), await fo();
    const k = [...document.querySelectorAll(".a9s-handle")][M + 1];
    if (k != null && k.firstChild) {
      const V = new PointerEvent(
        "pointerdown",
        {
          bubbles: !0,
          cancelable: !0,
          clientX: _.clientX,
          clientY: _.clientY,
          pointerId: _.pointerId,
          pointerType: _.pointerType,
          isPrimary: _.isPrimary,
          buttons: _.buttons
        }
      );
      k.firstChild.dispatchEvent(V);
    }
  }, I = () => {
    if (o.points.length - y.length < 3) return;
    const M = o.points.filter((b, E) => !y.includes(E)), _ = fe(M);
    l("change", { ...r, geometry: { points: M, bounds: _ } }), n(8, y = []);
  };
  Ve(() => {
    if (Ie) return;
    const M = (_) => {
      (_.key === "Delete" || _.key === "Backspace") && (_.preventDefault(), I());
    };
    return u.addEventListener("pointermove", v), u.addEventListener("keydown", M), () => {
      u.removeEventListener("pointermove", v), u.removeEventListener("keydown", M);
    };
  });
  const K = `polygon-mask-${Math.random().toString(36).substring(2, 12)}`;
  function X(M) {
    ue.call(this, e, M);
  }
  function G(M) {
    ue.call(this, e, M);
  }
  function N(M) {
    ue.call(this, e, M);
  }
  return e.$$set = (M) => {
    "shape" in M && n(0, r = M.shape), "computedStyle" in M && n(1, a = M.computedStyle), "transform" in M && n(2, c = M.transform), "viewportScale" in M && n(3, d = M.viewportScale), "svgEl" in M && n(4, u = M.svgEl);
  }, e.$$.update = () => {
    e.$$.dirty[0] & /*shape*/
    1 && n(5, o = r.geometry), e.$$.dirty[0] & /*geom, viewportScale*/
    40 && n(10, s = Ie ? [] : o.points.map((M, _) => {
      const b = _ === o.points.length - 1 ? o.points[0] : o.points[_ + 1], E = (M[0] + b[0]) / 2, k = (M[1] + b[1]) / 2, C = Math.sqrt(Math.pow(b[0] - E, 2) + Math.pow(b[1] - k, 2)) > Li / d;
      return { point: [E, k], visible: C };
    })), e.$$.dirty[0] & /*geom, viewportScale*/
    40 && n(9, i = Mt(o.bounds, rt / d));
  }, [
    r,
    a,
    c,
    d,
    u,
    o,
    h,
    g,
    y,
    i,
    s,
    A,
    w,
    v,
    S,
    P,
    T,
    L,
    D,
    K,
    X,
    G,
    N
  ];
}
class Oi extends pe {
  constructor(t) {
    super(), me(
      this,
      t,
      Ii,
      ki,
      ae,
      {
        shape: 0,
        computedStyle: 1,
        transform: 2,
        viewportScale: 3,
        svgEl: 4
      },
      null,
      [-1, -1]
    );
  }
}
const ko = (e, t, n) => {
  const [o, s] = e, [i, l] = t, r = Math.cos(n), a = Math.sin(n), c = o - i, d = s - l;
  return [
    i + c * r - d * a,
    l + c * a + d * r
  ];
}, Ci = (e, t, n, o, s = 0) => {
  const i = [
    [e, t],
    [e + n, t],
    [e + n, t + o],
    [e, t + o]
  ], l = [e + n / 2, t + o / 2];
  return i.map((r) => ko(r, l, s));
}, kn = (e, t) => {
  const { x: n, y: o, w: s, h: i, rot: l = 0 } = e, r = [n + s / 2, o + i / 2];
  let a = [n + s / 2, o - t];
  return ko(a, r, l);
}, Di = (e, t, n) => {
  const o = Math.cos(n), s = Math.sin(n);
  return [
    e * o + t * s,
    -e * s + t * o
  ];
}, Ni = (e, t, n) => {
  const o = e[0] - n[0], s = e[1] - n[1], i = Math.atan2(s, o), l = t[0] - n[0], r = t[1] - n[1];
  return Math.atan2(r, l) - i;
}, Ri = (e, t = 10) => {
  const n = t * Math.PI / 180;
  return Math.round(e / n) * n;
};
function Bi(e) {
  let t, n, o, s, i, l, r, a, c, d, u, h, g, m, y, A, w, v, p, S, P, T, L, D, I, K, X, G, N, M, _, b, E, k, V, C, q, j, Z, te, de, se, ve, Me, Oe, Xe, U, ee, ne, be, Pe, Ge, kt, Ce, Pt, De, Tt, Ne, Lt, Re, J, It, ln;
  return T = new je({
    props: {
      class: "a9s-rotation-handle",
      x: (
        /*rotationHandlePos*/
        e[7][0]
      ),
      y: (
        /*rotationHandlePos*/
        e[7][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), T.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[16]("ROTATION")
    ) && e[16]("ROTATION").apply(this, arguments);
  }), Ce = new je({
    props: {
      class: "a9s-corner-handle-topleft",
      x: (
        /*rotatedCorners*/
        e[6][0][0]
      ),
      y: (
        /*rotatedCorners*/
        e[6][0][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), Ce.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[16]("TOP_LEFT")
    ) && e[16]("TOP_LEFT").apply(this, arguments);
  }), De = new je({
    props: {
      class: "a9s-corner-handle-topright",
      x: (
        /*rotatedCorners*/
        e[6][1][0]
      ),
      y: (
        /*rotatedCorners*/
        e[6][1][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), De.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[16]("TOP_RIGHT")
    ) && e[16]("TOP_RIGHT").apply(this, arguments);
  }), Ne = new je({
    props: {
      class: "a9s-corner-handle-bottomright",
      x: (
        /*rotatedCorners*/
        e[6][2][0]
      ),
      y: (
        /*rotatedCorners*/
        e[6][2][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), Ne.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[16]("BOTTOM_RIGHT")
    ) && e[16]("BOTTOM_RIGHT").apply(this, arguments);
  }), Re = new je({
    props: {
      class: "a9s-corner-handle-bottomleft",
      x: (
        /*rotatedCorners*/
        e[6][3][0]
      ),
      y: (
        /*rotatedCorners*/
        e[6][3][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), Re.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[16]("BOTTOM_LEFT")
    ) && e[16]("BOTTOM_LEFT").apply(this, arguments);
  }), {
    c() {
      t = O("defs"), n = O("mask"), o = O("rect"), a = O("polygon"), d = _e(), u = O("g"), h = O("line"), w = O("line"), ce(T.$$.fragment), L = _e(), D = O("g"), I = O("polygon"), X = O("polygon"), N = _e(), M = O("line"), V = _e(), C = O("line"), de = _e(), se = O("line"), U = _e(), ee = O("line"), kt = _e(), ce(Ce.$$.fragment), Pt = _e(), ce(De.$$.fragment), Tt = _e(), ce(Ne.$$.fragment), Lt = _e(), ce(Re.$$.fragment), f(o, "class", "rect-mask-bg svelte-1bwhzbc"), f(o, "x", s = /*mask*/
      e[5].x), f(o, "y", i = /*mask*/
      e[5].y), f(o, "width", l = /*mask*/
      e[5].w), f(o, "height", r = /*mask*/
      e[5].h), f(a, "class", "rect-mask-fg svelte-1bwhzbc"), f(a, "points", c = /*rotatedCorners*/
      e[6].map(Pn).join(" ")), f(
        n,
        "id",
        /*maskId*/
        e[9]
      ), f(n, "class", "a9s-rectangle-editor-mask svelte-1bwhzbc"), f(h, "class", "a9s-rotation-handle-line-bg"), f(h, "x1", g = /*rotatedCorners*/
      e[6][0][0] + /*rotatedCorners*/
      (e[6][1][0] - /*rotatedCorners*/
      e[6][0][0]) / 2), f(h, "y1", m = /*rotatedCorners*/
      e[6][0][1] + /*rotatedCorners*/
      (e[6][1][1] - /*rotatedCorners*/
      e[6][0][1]) / 2), f(h, "x2", y = /*rotationHandlePos*/
      e[7][0]), f(h, "y2", A = /*rotationHandlePos*/
      e[7][1]), f(h, "pointer-events", "none"), f(w, "class", "a9s-rotation-handle-line-fg"), f(w, "x1", v = /*rotatedCorners*/
      e[6][0][0] + /*rotatedCorners*/
      (e[6][1][0] - /*rotatedCorners*/
      e[6][0][0]) / 2), f(w, "y1", p = /*rotatedCorners*/
      e[6][0][1] + /*rotatedCorners*/
      (e[6][1][1] - /*rotatedCorners*/
      e[6][0][1]) / 2), f(w, "x2", S = /*rotationHandlePos*/
      e[7][0]), f(w, "y2", P = /*rotationHandlePos*/
      e[7][1]), f(w, "pointer-events", "none"), f(u, "class", "a9s-rotation-handle-group"), f(I, "class", "a9s-outer"), f(I, "mask", `url(#${/*maskId*/
      e[9]})`), f(I, "points", K = /*rotatedCorners*/
      e[6].map(Tn).join(" ")), f(X, "class", "a9s-inner a9s-shape-handle"), f(
        X,
        "style",
        /*computedStyle*/
        e[1]
      ), f(X, "points", G = /*rotatedCorners*/
      e[6].map(Ln).join(" ")), f(M, "class", "a9s-edge-handle a9s-edge-handle-top"), f(M, "x1", _ = /*rotatedCorners*/
      e[6][0][0]), f(M, "y1", b = /*rotatedCorners*/
      e[6][0][1]), f(M, "x2", E = /*rotatedCorners*/
      e[6][1][0]), f(M, "y2", k = /*rotatedCorners*/
      e[6][1][1]), f(C, "class", "a9s-edge-handle a9s-edge-handle-right"), f(C, "x1", q = /*rotatedCorners*/
      e[6][1][0]), f(C, "y1", j = /*rotatedCorners*/
      e[6][1][1]), f(C, "x2", Z = /*rotatedCorners*/
      e[6][2][0]), f(C, "y2", te = /*rotatedCorners*/
      e[6][2][1]), f(se, "class", "a9s-edge-handle a9s-edge-handle-bottom"), f(se, "x1", ve = /*rotatedCorners*/
      e[6][2][0]), f(se, "y1", Me = /*rotatedCorners*/
      e[6][2][1]), f(se, "x2", Oe = /*rotatedCorners*/
      e[6][3][0]), f(se, "y2", Xe = /*rotatedCorners*/
      e[6][3][1]), f(ee, "class", "a9s-edge-handle a9s-edge-handle-left"), f(ee, "x1", ne = /*rotatedCorners*/
      e[6][3][0]), f(ee, "y1", be = /*rotatedCorners*/
      e[6][3][1]), f(ee, "x2", Pe = /*rotatedCorners*/
      e[6][0][0]), f(ee, "y2", Ge = /*rotatedCorners*/
      e[6][0][1]);
    },
    m(W, R) {
      Y(W, t, R), z(t, n), z(n, o), z(n, a), Y(W, d, R), Y(W, u, R), z(u, h), z(u, w), re(T, u, null), Y(W, L, R), Y(W, D, R), z(D, I), z(D, X), Y(W, N, R), Y(W, M, R), Y(W, V, R), Y(W, C, R), Y(W, de, R), Y(W, se, R), Y(W, U, R), Y(W, ee, R), Y(W, kt, R), re(Ce, W, R), Y(W, Pt, R), re(De, W, R), Y(W, Tt, R), re(Ne, W, R), Y(W, Lt, R), re(Re, W, R), J = !0, It || (ln = [
        Q(I, "pointerdown", function() {
          ie(
            /*grab*/
            e[16]("SHAPE")
          ) && e[16]("SHAPE").apply(this, arguments);
        }),
        Q(X, "pointerdown", function() {
          ie(
            /*grab*/
            e[16]("SHAPE")
          ) && e[16]("SHAPE").apply(this, arguments);
        }),
        Q(M, "pointerdown", function() {
          ie(
            /*grab*/
            e[16]("TOP")
          ) && e[16]("TOP").apply(this, arguments);
        }),
        Q(C, "pointerdown", function() {
          ie(
            /*grab*/
            e[16]("RIGHT")
          ) && e[16]("RIGHT").apply(this, arguments);
        }),
        Q(se, "pointerdown", function() {
          ie(
            /*grab*/
            e[16]("BOTTOM")
          ) && e[16]("BOTTOM").apply(this, arguments);
        }),
        Q(ee, "pointerdown", function() {
          ie(
            /*grab*/
            e[16]("LEFT")
          ) && e[16]("LEFT").apply(this, arguments);
        })
      ], It = !0);
    },
    p(W, R) {
      e = W, (!J || R & /*mask*/
      32 && s !== (s = /*mask*/
      e[5].x)) && f(o, "x", s), (!J || R & /*mask*/
      32 && i !== (i = /*mask*/
      e[5].y)) && f(o, "y", i), (!J || R & /*mask*/
      32 && l !== (l = /*mask*/
      e[5].w)) && f(o, "width", l), (!J || R & /*mask*/
      32 && r !== (r = /*mask*/
      e[5].h)) && f(o, "height", r), (!J || R & /*rotatedCorners*/
      64 && c !== (c = /*rotatedCorners*/
      e[6].map(Pn).join(" "))) && f(a, "points", c), (!J || R & /*rotatedCorners*/
      64 && g !== (g = /*rotatedCorners*/
      e[6][0][0] + /*rotatedCorners*/
      (e[6][1][0] - /*rotatedCorners*/
      e[6][0][0]) / 2)) && f(h, "x1", g), (!J || R & /*rotatedCorners*/
      64 && m !== (m = /*rotatedCorners*/
      e[6][0][1] + /*rotatedCorners*/
      (e[6][1][1] - /*rotatedCorners*/
      e[6][0][1]) / 2)) && f(h, "y1", m), (!J || R & /*rotationHandlePos*/
      128 && y !== (y = /*rotationHandlePos*/
      e[7][0])) && f(h, "x2", y), (!J || R & /*rotationHandlePos*/
      128 && A !== (A = /*rotationHandlePos*/
      e[7][1])) && f(h, "y2", A), (!J || R & /*rotatedCorners*/
      64 && v !== (v = /*rotatedCorners*/
      e[6][0][0] + /*rotatedCorners*/
      (e[6][1][0] - /*rotatedCorners*/
      e[6][0][0]) / 2)) && f(w, "x1", v), (!J || R & /*rotatedCorners*/
      64 && p !== (p = /*rotatedCorners*/
      e[6][0][1] + /*rotatedCorners*/
      (e[6][1][1] - /*rotatedCorners*/
      e[6][0][1]) / 2)) && f(w, "y1", p), (!J || R & /*rotationHandlePos*/
      128 && S !== (S = /*rotationHandlePos*/
      e[7][0])) && f(w, "x2", S), (!J || R & /*rotationHandlePos*/
      128 && P !== (P = /*rotationHandlePos*/
      e[7][1])) && f(w, "y2", P);
      const ct = {};
      R & /*rotationHandlePos*/
      128 && (ct.x = /*rotationHandlePos*/
      e[7][0]), R & /*rotationHandlePos*/
      128 && (ct.y = /*rotationHandlePos*/
      e[7][1]), R & /*viewportScale*/
      8 && (ct.scale = /*viewportScale*/
      e[3]), T.$set(ct), (!J || R & /*rotatedCorners*/
      64 && K !== (K = /*rotatedCorners*/
      e[6].map(Tn).join(" "))) && f(I, "points", K), (!J || R & /*computedStyle*/
      2) && f(
        X,
        "style",
        /*computedStyle*/
        e[1]
      ), (!J || R & /*rotatedCorners*/
      64 && G !== (G = /*rotatedCorners*/
      e[6].map(Ln).join(" "))) && f(X, "points", G), (!J || R & /*rotatedCorners*/
      64 && _ !== (_ = /*rotatedCorners*/
      e[6][0][0])) && f(M, "x1", _), (!J || R & /*rotatedCorners*/
      64 && b !== (b = /*rotatedCorners*/
      e[6][0][1])) && f(M, "y1", b), (!J || R & /*rotatedCorners*/
      64 && E !== (E = /*rotatedCorners*/
      e[6][1][0])) && f(M, "x2", E), (!J || R & /*rotatedCorners*/
      64 && k !== (k = /*rotatedCorners*/
      e[6][1][1])) && f(M, "y2", k), (!J || R & /*rotatedCorners*/
      64 && q !== (q = /*rotatedCorners*/
      e[6][1][0])) && f(C, "x1", q), (!J || R & /*rotatedCorners*/
      64 && j !== (j = /*rotatedCorners*/
      e[6][1][1])) && f(C, "y1", j), (!J || R & /*rotatedCorners*/
      64 && Z !== (Z = /*rotatedCorners*/
      e[6][2][0])) && f(C, "x2", Z), (!J || R & /*rotatedCorners*/
      64 && te !== (te = /*rotatedCorners*/
      e[6][2][1])) && f(C, "y2", te), (!J || R & /*rotatedCorners*/
      64 && ve !== (ve = /*rotatedCorners*/
      e[6][2][0])) && f(se, "x1", ve), (!J || R & /*rotatedCorners*/
      64 && Me !== (Me = /*rotatedCorners*/
      e[6][2][1])) && f(se, "y1", Me), (!J || R & /*rotatedCorners*/
      64 && Oe !== (Oe = /*rotatedCorners*/
      e[6][3][0])) && f(se, "x2", Oe), (!J || R & /*rotatedCorners*/
      64 && Xe !== (Xe = /*rotatedCorners*/
      e[6][3][1])) && f(se, "y2", Xe), (!J || R & /*rotatedCorners*/
      64 && ne !== (ne = /*rotatedCorners*/
      e[6][3][0])) && f(ee, "x1", ne), (!J || R & /*rotatedCorners*/
      64 && be !== (be = /*rotatedCorners*/
      e[6][3][1])) && f(ee, "y1", be), (!J || R & /*rotatedCorners*/
      64 && Pe !== (Pe = /*rotatedCorners*/
      e[6][0][0])) && f(ee, "x2", Pe), (!J || R & /*rotatedCorners*/
      64 && Ge !== (Ge = /*rotatedCorners*/
      e[6][0][1])) && f(ee, "y2", Ge);
      const ft = {};
      R & /*rotatedCorners*/
      64 && (ft.x = /*rotatedCorners*/
      e[6][0][0]), R & /*rotatedCorners*/
      64 && (ft.y = /*rotatedCorners*/
      e[6][0][1]), R & /*viewportScale*/
      8 && (ft.scale = /*viewportScale*/
      e[3]), Ce.$set(ft);
      const ut = {};
      R & /*rotatedCorners*/
      64 && (ut.x = /*rotatedCorners*/
      e[6][1][0]), R & /*rotatedCorners*/
      64 && (ut.y = /*rotatedCorners*/
      e[6][1][1]), R & /*viewportScale*/
      8 && (ut.scale = /*viewportScale*/
      e[3]), De.$set(ut);
      const dt = {};
      R & /*rotatedCorners*/
      64 && (dt.x = /*rotatedCorners*/
      e[6][2][0]), R & /*rotatedCorners*/
      64 && (dt.y = /*rotatedCorners*/
      e[6][2][1]), R & /*viewportScale*/
      8 && (dt.scale = /*viewportScale*/
      e[3]), Ne.$set(dt);
      const ht = {};
      R & /*rotatedCorners*/
      64 && (ht.x = /*rotatedCorners*/
      e[6][3][0]), R & /*rotatedCorners*/
      64 && (ht.y = /*rotatedCorners*/
      e[6][3][1]), R & /*viewportScale*/
      8 && (ht.scale = /*viewportScale*/
      e[3]), Re.$set(ht);
    },
    i(W) {
      J || (H(T.$$.fragment, W), H(Ce.$$.fragment, W), H(De.$$.fragment, W), H(Ne.$$.fragment, W), H(Re.$$.fragment, W), J = !0);
    },
    o(W) {
      F(T.$$.fragment, W), F(Ce.$$.fragment, W), F(De.$$.fragment, W), F(Ne.$$.fragment, W), F(Re.$$.fragment, W), J = !1;
    },
    d(W) {
      W && (B(t), B(d), B(u), B(L), B(D), B(N), B(M), B(V), B(C), B(de), B(se), B(U), B(ee), B(kt), B(Pt), B(Tt), B(Lt)), le(T), le(Ce, W), le(De, W), le(Ne, W), le(Re, W), It = !1, Ae(ln);
    }
  };
}
function Yi(e) {
  let t, n;
  return t = new sn({
    props: {
      shape: (
        /*shape*/
        e[0]
      ),
      transform: (
        /*transform*/
        e[2]
      ),
      editor: (
        /*editor*/
        e[8]
      ),
      svgEl: (
        /*svgEl*/
        e[4]
      ),
      $$slots: {
        default: [
          Bi,
          ({ grab: o }) => ({ 16: o }),
          ({ grab: o }) => o ? 65536 : 0
        ]
      },
      $$scope: { ctx: e }
    }
  }), t.$on(
    "grab",
    /*grab_handler*/
    e[12]
  ), t.$on(
    "change",
    /*change_handler*/
    e[13]
  ), t.$on(
    "release",
    /*release_handler*/
    e[14]
  ), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, [s]) {
      const i = {};
      s & /*shape*/
      1 && (i.shape = /*shape*/
      o[0]), s & /*transform*/
      4 && (i.transform = /*transform*/
      o[2]), s & /*svgEl*/
      16 && (i.svgEl = /*svgEl*/
      o[4]), s & /*$$scope, rotatedCorners, viewportScale, grab, computedStyle, rotationHandlePos, mask*/
      196842 && (i.$$scope = { dirty: s, ctx: o }), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
const Pn = (e) => `${e[0]},${e[1]}`, Tn = (e) => `${e[0]},${e[1]}`, Ln = (e) => `${e[0]},${e[1]}`;
function Ui(e, t, n) {
  let o, s, i, l, r, { shape: a } = t, { computedStyle: c } = t, { transform: d } = t, { viewportScale: u = 1 } = t, { svgEl: h } = t, g = !1;
  const m = (p, S, P) => {
    let { x: T, y: L, w: D, h: I, rot: K = 0 } = p.geometry;
    const [X, G] = P;
    if (S === "ROTATION") {
      const M = kn(p.geometry, o), _ = M[0] + X, b = M[1] + G, E = [T + D / 2, L + I / 2];
      K += Ni([M[0], M[1]], [_, b], E), g && (K = Ri(K));
      const k = 2 * Math.PI;
      K = (K % k + k) % k;
    } else if (S === "SHAPE")
      T += X, L += G;
    else {
      let M = 0, _ = 0, b = D, E = I;
      const [k, V] = K !== 0 ? Di(X, G, K) : [X, G];
      switch (S) {
        case "TOP":
        case "TOP_LEFT":
        case "TOP_RIGHT":
          _ += V;
          break;
        case "BOTTOM":
        case "BOTTOM_LEFT":
        case "BOTTOM_RIGHT":
          E += V;
          break;
      }
      switch (S) {
        case "LEFT":
        case "TOP_LEFT":
        case "BOTTOM_LEFT":
          M += k;
          break;
        case "RIGHT":
        case "TOP_RIGHT":
        case "BOTTOM_RIGHT":
          b += k;
          break;
      }
      const C = (M + b) / 2, q = (_ + E) / 2;
      D = Math.abs(b - M), I = Math.abs(E - _);
      const j = [T + p.geometry.w / 2, L + p.geometry.h / 2], Z = [
        C - p.geometry.w / 2,
        q - p.geometry.h / 2
      ], te = Math.cos(K), de = Math.sin(K), se = j[0] + Z[0] * te - Z[1] * de, ve = j[1] + Z[0] * de + Z[1] * te;
      T = se - D / 2, L = ve - I / 2;
    }
    const N = fe(i);
    return {
      ...p,
      geometry: { x: T, y: L, w: D, h: I, rot: K, bounds: N }
    };
  };
  Ve(() => {
    const p = (P) => {
      P.key === "Shift" && (g = !0);
    }, S = (P) => {
      P.key === "Shift" && (g = !1);
    };
    return window.addEventListener("keydown", p), window.addEventListener("keyup", S), () => {
      window.removeEventListener("keydown", p), window.removeEventListener("keyup", S);
    };
  });
  const y = `rect-mask-${Math.random().toString(36).substring(2, 12)}`;
  function A(p) {
    ue.call(this, e, p);
  }
  function w(p) {
    ue.call(this, e, p);
  }
  function v(p) {
    ue.call(this, e, p);
  }
  return e.$$set = (p) => {
    "shape" in p && n(0, a = p.shape), "computedStyle" in p && n(1, c = p.computedStyle), "transform" in p && n(2, d = p.transform), "viewportScale" in p && n(3, u = p.viewportScale), "svgEl" in p && n(4, h = p.svgEl);
  }, e.$$.update = () => {
    e.$$.dirty & /*viewportScale*/
    8 && n(11, o = 20 / u), e.$$.dirty & /*shape*/
    1 && n(10, s = a.geometry), e.$$.dirty & /*geom*/
    1024 && n(6, i = Ci(s.x, s.y, s.w, s.h, s.rot)), e.$$.dirty & /*geom, ROTATION_HANDLE_OFFSET*/
    3072 && n(7, l = kn(s, o)), e.$$.dirty & /*geom, viewportScale*/
    1032 && n(5, r = Mt(s.bounds, 5 / u));
  }, [
    a,
    c,
    d,
    u,
    h,
    r,
    i,
    l,
    m,
    y,
    s,
    o,
    A,
    w,
    v
  ];
}
class Vi extends pe {
  constructor(t) {
    super(), me(this, t, Ui, Yi, ae, {
      shape: 0,
      computedStyle: 1,
      transform: 2,
      viewportScale: 3,
      svgEl: 4
    });
  }
}
var In = Object.prototype.hasOwnProperty;
function $t(e, t) {
  var n, o;
  if (e === t) return !0;
  if (e && t && (n = e.constructor) === t.constructor) {
    if (n === Date) return e.getTime() === t.getTime();
    if (n === RegExp) return e.toString() === t.toString();
    if (n === Array) {
      if ((o = e.length) === t.length)
        for (; o-- && $t(e[o], t[o]); ) ;
      return o === -1;
    }
    if (!n || typeof e == "object") {
      o = 0;
      for (n in e)
        if (In.call(e, n) && ++o && !In.call(t, n) || !(n in t) || !$t(e[n], t[n])) return !1;
      return Object.keys(t).length === o;
    }
  }
  return e !== e && t !== t;
}
const Hi = 12, Xi = (e, t) => e.polygons.reduce((n, o, s) => {
  const i = o.rings.reduce((l, r, a) => {
    const c = r.points.map((d, u) => {
      const h = u === r.points.length - 1 ? r.points[0] : r.points[u + 1], g = (d[0] + h[0]) / 2, m = (d[1] + h[1]) / 2, A = Math.sqrt(
        Math.pow(h[0] - g, 2) + Math.pow(h[1] - m, 2)
      ) > Hi / t;
      return { point: [g, m], visible: A, elementIdx: s, ringIdx: a, pointIdx: u };
    });
    return [...l, ...c];
  }, []);
  return [...n, ...i];
}, []);
function Ht(e) {
  const t = e.slice(), n = (
    /*midpoints*/
    t[10][
      /*visibleMidpoint*/
      t[6]
    ]
  );
  return t[29] = n.point, t;
}
function On(e, t, n) {
  const o = e.slice();
  return o[30] = t[n], o[32] = n, o;
}
function Cn(e, t, n) {
  const o = e.slice();
  return o[33] = t[n], o[35] = n, o;
}
function Dn(e, t, n) {
  const o = e.slice();
  return o[29] = t[n], o[37] = n, o;
}
function Xt(e) {
  const t = e.slice(), n = (
    /*midpoints*/
    t[10][
      /*visibleMidpoint*/
      t[6]
    ]
  );
  return t[29] = n.point, t;
}
function Gt(e) {
  const t = e.slice(), n = (
    /*midpoints*/
    t[10][
      /*visibleMidpoint*/
      t[6]
    ]
  );
  return t[29] = n.point, t;
}
function Nn(e) {
  let t, n, o, s;
  return {
    c() {
      t = O("circle"), f(t, "cx", n = /*point*/
      e[29][0]), f(t, "cy", o = /*point*/
      e[29][1]), f(t, "r", s = lt / /*viewportScale*/
      e[3]), f(t, "class", "svelte-1vxo6dc");
    },
    m(i, l) {
      Y(i, t, l);
    },
    p(i, l) {
      l[0] & /*midpoints, visibleMidpoint*/
      1088 && n !== (n = /*point*/
      i[29][0]) && f(t, "cx", n), l[0] & /*midpoints, visibleMidpoint*/
      1088 && o !== (o = /*point*/
      i[29][1]) && f(t, "cy", o), l[0] & /*viewportScale*/
      8 && s !== (s = lt / /*viewportScale*/
      i[3]) && f(t, "r", s);
    },
    d(i) {
      i && B(t);
    }
  };
}
function Rn(e) {
  let t, n, o, s, i, l, r, a, c, d;
  return {
    c() {
      t = O("mask"), n = O("rect"), r = O("circle"), f(n, "x", o = /*mask*/
      e[9].x), f(n, "y", s = /*mask*/
      e[9].y), f(n, "width", i = /*mask*/
      e[9].w), f(n, "height", l = /*mask*/
      e[9].h), f(n, "class", "svelte-1vxo6dc"), f(r, "cx", a = /*point*/
      e[29][0]), f(r, "cy", c = /*point*/
      e[29][1]), f(r, "r", d = lt / /*viewportScale*/
      e[3]), f(r, "class", "svelte-1vxo6dc"), f(t, "id", `${/*maskId*/
      e[18]}-${/*elementIdx*/
      e[32]}-inner`), f(t, "class", "a9s-multipolygon-editor-mask svelte-1vxo6dc");
    },
    m(u, h) {
      Y(u, t, h), z(t, n), z(t, r);
    },
    p(u, h) {
      h[0] & /*mask*/
      512 && o !== (o = /*mask*/
      u[9].x) && f(n, "x", o), h[0] & /*mask*/
      512 && s !== (s = /*mask*/
      u[9].y) && f(n, "y", s), h[0] & /*mask*/
      512 && i !== (i = /*mask*/
      u[9].w) && f(n, "width", i), h[0] & /*mask*/
      512 && l !== (l = /*mask*/
      u[9].h) && f(n, "height", l), h[0] & /*midpoints, visibleMidpoint*/
      1088 && a !== (a = /*point*/
      u[29][0]) && f(r, "cx", a), h[0] & /*midpoints, visibleMidpoint*/
      1088 && c !== (c = /*point*/
      u[29][1]) && f(r, "cy", c), h[0] & /*viewportScale*/
      8 && d !== (d = lt / /*viewportScale*/
      u[3]) && f(r, "r", d);
    },
    d(u) {
      u && B(t);
    }
  };
}
function Bn(e) {
  let t, n;
  function o(...s) {
    return (
      /*func*/
      e[19](
        /*elementIdx*/
        e[32],
        /*ringIdx*/
        e[35],
        /*pointIdx*/
        e[37],
        ...s
      )
    );
  }
  return t = new je({
    props: {
      class: "a9s-corner-handle",
      x: (
        /*point*/
        e[29][0]
      ),
      y: (
        /*point*/
        e[29][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      ),
      selected: (
        /*selectedCorners*/
        e[8].some(o)
      )
    }
  }), t.$on(
    "pointerenter",
    /*onEnterHandle*/
    e[11]
  ), t.$on(
    "pointerleave",
    /*onLeaveHandle*/
    e[12]
  ), t.$on(
    "pointerdown",
    /*onHandlePointerDown*/
    e[14]
  ), t.$on("pointerdown", function() {
    ie(
      /*grab*/
      e[28](`HANDLE-${/*elementIdx*/
      e[32]}-${/*ringIdx*/
      e[35]}-${/*pointIdx*/
      e[37]}`)
    ) && e[28](`HANDLE-${/*elementIdx*/
    e[32]}-${/*ringIdx*/
    e[35]}-${/*pointIdx*/
    e[37]}`).apply(this, arguments);
  }), t.$on(
    "pointerup",
    /*onHandlePointerUp*/
    e[15](
      /*elementIdx*/
      e[32],
      /*ringIdx*/
      e[35],
      /*pointIdx*/
      e[37]
    )
  ), {
    c() {
      ce(t.$$.fragment);
    },
    m(s, i) {
      re(t, s, i), n = !0;
    },
    p(s, i) {
      e = s;
      const l = {};
      i[0] & /*geom*/
      32 && (l.x = /*point*/
      e[29][0]), i[0] & /*geom*/
      32 && (l.y = /*point*/
      e[29][1]), i[0] & /*viewportScale*/
      8 && (l.scale = /*viewportScale*/
      e[3]), i[0] & /*selectedCorners*/
      256 && (l.selected = /*selectedCorners*/
      e[8].some(o)), t.$set(l);
    },
    i(s) {
      n || (H(t.$$.fragment, s), n = !0);
    },
    o(s) {
      F(t.$$.fragment, s), n = !1;
    },
    d(s) {
      le(t, s);
    }
  };
}
function Yn(e) {
  let t, n, o = Ee(
    /*ring*/
    e[33].points
  ), s = [];
  for (let l = 0; l < o.length; l += 1)
    s[l] = Bn(Dn(e, o, l));
  const i = (l) => F(s[l], 1, 1, () => {
    s[l] = null;
  });
  return {
    c() {
      for (let l = 0; l < s.length; l += 1)
        s[l].c();
      t = Se();
    },
    m(l, r) {
      for (let a = 0; a < s.length; a += 1)
        s[a] && s[a].m(l, r);
      Y(l, t, r), n = !0;
    },
    p(l, r) {
      if (r[0] & /*geom, viewportScale, selectedCorners, onEnterHandle, onLeaveHandle, onHandlePointerDown, grab, onHandlePointerUp*/
      268491048) {
        o = Ee(
          /*ring*/
          l[33].points
        );
        let a;
        for (a = 0; a < o.length; a += 1) {
          const c = Dn(l, o, a);
          s[a] ? (s[a].p(c, r), H(s[a], 1)) : (s[a] = Bn(c), s[a].c(), H(s[a], 1), s[a].m(t.parentNode, t));
        }
        for (ye(), a = o.length; a < s.length; a += 1)
          i(a);
        we();
      }
    },
    i(l) {
      if (!n) {
        for (let r = 0; r < o.length; r += 1)
          H(s[r]);
        n = !0;
      }
    },
    o(l) {
      s = s.filter(Boolean);
      for (let r = 0; r < s.length; r += 1)
        F(s[r]);
      n = !1;
    },
    d(l) {
      l && B(t), ze(s, l);
    }
  };
}
function Un(e) {
  let t, n, o, s, i, l, r, a, c, d, u, h, g, m, y, A, w, v = (
    /*visibleMidpoint*/
    e[6] !== void 0 && !/*isHandleHovered*/
    e[7] && Nn(Gt(e))
  ), p = (
    /*visibleMidpoint*/
    e[6] !== void 0 && !/*isHandleHovered*/
    e[7] && Rn(Xt(e))
  ), S = Ee(
    /*element*/
    e[30].rings
  ), P = [];
  for (let L = 0; L < S.length; L += 1)
    P[L] = Yn(Cn(e, S, L));
  const T = (L) => F(P[L], 1, 1, () => {
    P[L] = null;
  });
  return {
    c() {
      t = O("g"), n = O("defs"), o = O("mask"), s = O("rect"), c = O("path"), v && v.c(), p && p.c(), u = O("path"), g = O("path");
      for (let L = 0; L < P.length; L += 1)
        P[L].c();
      f(s, "x", i = /*mask*/
      e[9].x), f(s, "y", l = /*mask*/
      e[9].y), f(s, "width", r = /*mask*/
      e[9].w), f(s, "height", a = /*mask*/
      e[9].h), f(s, "class", "svelte-1vxo6dc"), f(c, "d", d = Le(
        /*element*/
        e[30]
      )), f(c, "class", "svelte-1vxo6dc"), f(o, "id", `${/*maskId*/
      e[18]}-${/*elementIdx*/
      e[32]}-outer`), f(o, "class", "a9s-multipolygon-editor-mask svelte-1vxo6dc"), f(u, "class", "a9s-outer"), f(u, "mask", `url(#${/*maskId*/
      e[18]}-${/*elementIdx*/
      e[32]}-outer)`), f(u, "fill-rule", "evenodd"), f(u, "d", h = Le(
        /*element*/
        e[30]
      )), f(g, "class", "a9s-inner"), f(g, "mask", `url(#${/*maskId*/
      e[18]}-${/*elementIdx*/
      e[32]}-inner)`), f(
        g,
        "style",
        /*computedStyle*/
        e[1]
      ), f(g, "fill-rule", "evenodd"), f(g, "d", m = Le(
        /*element*/
        e[30]
      ));
    },
    m(L, D) {
      Y(L, t, D), z(t, n), z(n, o), z(o, s), z(o, c), v && v.m(o, null), p && p.m(n, null), z(t, u), z(t, g);
      for (let I = 0; I < P.length; I += 1)
        P[I] && P[I].m(t, null);
      y = !0, A || (w = [
        Q(
          u,
          "pointerup",
          /*onShapePointerUp*/
          e[13]
        ),
        Q(u, "pointerdown", function() {
          ie(
            /*grab*/
            e[28]("SHAPE")
          ) && e[28]("SHAPE").apply(this, arguments);
        }),
        Q(
          g,
          "pointerup",
          /*onShapePointerUp*/
          e[13]
        ),
        Q(g, "pointerdown", function() {
          ie(
            /*grab*/
            e[28]("SHAPE")
          ) && e[28]("SHAPE").apply(this, arguments);
        })
      ], A = !0);
    },
    p(L, D) {
      if (e = L, (!y || D[0] & /*mask*/
      512 && i !== (i = /*mask*/
      e[9].x)) && f(s, "x", i), (!y || D[0] & /*mask*/
      512 && l !== (l = /*mask*/
      e[9].y)) && f(s, "y", l), (!y || D[0] & /*mask*/
      512 && r !== (r = /*mask*/
      e[9].w)) && f(s, "width", r), (!y || D[0] & /*mask*/
      512 && a !== (a = /*mask*/
      e[9].h)) && f(s, "height", a), (!y || D[0] & /*geom*/
      32 && d !== (d = Le(
        /*element*/
        e[30]
      ))) && f(c, "d", d), /*visibleMidpoint*/
      e[6] !== void 0 && !/*isHandleHovered*/
      e[7] ? v ? v.p(Gt(e), D) : (v = Nn(Gt(e)), v.c(), v.m(o, null)) : v && (v.d(1), v = null), /*visibleMidpoint*/
      e[6] !== void 0 && !/*isHandleHovered*/
      e[7] ? p ? p.p(Xt(e), D) : (p = Rn(Xt(e)), p.c(), p.m(n, null)) : p && (p.d(1), p = null), (!y || D[0] & /*geom*/
      32 && h !== (h = Le(
        /*element*/
        e[30]
      ))) && f(u, "d", h), (!y || D[0] & /*computedStyle*/
      2) && f(
        g,
        "style",
        /*computedStyle*/
        e[1]
      ), (!y || D[0] & /*geom*/
      32 && m !== (m = Le(
        /*element*/
        e[30]
      ))) && f(g, "d", m), D[0] & /*geom, viewportScale, selectedCorners, onEnterHandle, onLeaveHandle, onHandlePointerDown, grab, onHandlePointerUp*/
      268491048) {
        S = Ee(
          /*element*/
          e[30].rings
        );
        let I;
        for (I = 0; I < S.length; I += 1) {
          const K = Cn(e, S, I);
          P[I] ? (P[I].p(K, D), H(P[I], 1)) : (P[I] = Yn(K), P[I].c(), H(P[I], 1), P[I].m(t, null));
        }
        for (ye(), I = S.length; I < P.length; I += 1)
          T(I);
        we();
      }
    },
    i(L) {
      if (!y) {
        for (let D = 0; D < S.length; D += 1)
          H(P[D]);
        y = !0;
      }
    },
    o(L) {
      P = P.filter(Boolean);
      for (let D = 0; D < P.length; D += 1)
        F(P[D]);
      y = !1;
    },
    d(L) {
      L && B(t), v && v.d(), p && p.d(), ze(P, L), A = !1, Ae(w);
    }
  };
}
function Vn(e) {
  let t, n;
  return t = new Mo({
    props: {
      x: (
        /*point*/
        e[29][0]
      ),
      y: (
        /*point*/
        e[29][1]
      ),
      scale: (
        /*viewportScale*/
        e[3]
      )
    }
  }), t.$on("pointerdown", function() {
    ie(
      /*onAddPoint*/
      e[17](
        /*visibleMidpoint*/
        e[6]
      )
    ) && e[17](
      /*visibleMidpoint*/
      e[6]
    ).apply(this, arguments);
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      e = o;
      const i = {};
      s[0] & /*midpoints, visibleMidpoint*/
      1088 && (i.x = /*point*/
      e[29][0]), s[0] & /*midpoints, visibleMidpoint*/
      1088 && (i.y = /*point*/
      e[29][1]), s[0] & /*viewportScale*/
      8 && (i.scale = /*viewportScale*/
      e[3]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Gi(e) {
  let t, n, o, s = Ee(
    /*geom*/
    e[5].polygons
  ), i = [];
  for (let a = 0; a < s.length; a += 1)
    i[a] = Un(On(e, s, a));
  const l = (a) => F(i[a], 1, 1, () => {
    i[a] = null;
  });
  let r = (
    /*visibleMidpoint*/
    e[6] !== void 0 && !/*isHandleHovered*/
    e[7] && Vn(Ht(e))
  );
  return {
    c() {
      for (let a = 0; a < i.length; a += 1)
        i[a].c();
      t = _e(), r && r.c(), n = Se();
    },
    m(a, c) {
      for (let d = 0; d < i.length; d += 1)
        i[d] && i[d].m(a, c);
      Y(a, t, c), r && r.m(a, c), Y(a, n, c), o = !0;
    },
    p(a, c) {
      if (c[0] & /*geom, viewportScale, selectedCorners, onEnterHandle, onLeaveHandle, onHandlePointerDown, grab, onHandlePointerUp, maskId, computedStyle, onShapePointerUp, midpoints, visibleMidpoint, mask, isHandleHovered*/
      268763114) {
        s = Ee(
          /*geom*/
          a[5].polygons
        );
        let d;
        for (d = 0; d < s.length; d += 1) {
          const u = On(a, s, d);
          i[d] ? (i[d].p(u, c), H(i[d], 1)) : (i[d] = Un(u), i[d].c(), H(i[d], 1), i[d].m(t.parentNode, t));
        }
        for (ye(), d = s.length; d < i.length; d += 1)
          l(d);
        we();
      }
      /*visibleMidpoint*/
      a[6] !== void 0 && !/*isHandleHovered*/
      a[7] ? r ? (r.p(Ht(a), c), c[0] & /*visibleMidpoint, isHandleHovered*/
      192 && H(r, 1)) : (r = Vn(Ht(a)), r.c(), H(r, 1), r.m(n.parentNode, n)) : r && (ye(), F(r, 1, 1, () => {
        r = null;
      }), we());
    },
    i(a) {
      if (!o) {
        for (let c = 0; c < s.length; c += 1)
          H(i[c]);
        H(r), o = !0;
      }
    },
    o(a) {
      i = i.filter(Boolean);
      for (let c = 0; c < i.length; c += 1)
        F(i[c]);
      F(r), o = !1;
    },
    d(a) {
      a && (B(t), B(n)), ze(i, a), r && r.d(a);
    }
  };
}
function ji(e) {
  let t, n;
  return t = new sn({
    props: {
      shape: (
        /*shape*/
        e[0]
      ),
      transform: (
        /*transform*/
        e[2]
      ),
      editor: (
        /*editor*/
        e[16]
      ),
      svgEl: (
        /*svgEl*/
        e[4]
      ),
      $$slots: {
        default: [
          Gi,
          ({ grab: o }) => ({ 28: o }),
          ({ grab: o }) => [o ? 268435456 : 0]
        ]
      },
      $$scope: { ctx: e }
    }
  }), t.$on(
    "change",
    /*change_handler*/
    e[20]
  ), t.$on(
    "grab",
    /*grab_handler*/
    e[21]
  ), t.$on(
    "release",
    /*release_handler*/
    e[22]
  ), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*shape*/
      1 && (i.shape = /*shape*/
      o[0]), s[0] & /*transform*/
      4 && (i.transform = /*transform*/
      o[2]), s[0] & /*svgEl*/
      16 && (i.svgEl = /*svgEl*/
      o[4]), s[0] & /*midpoints, visibleMidpoint, viewportScale, isHandleHovered, geom, selectedCorners, grab, computedStyle, mask*/
      268437482 | s[1] & /*$$scope*/
      128 && (i.$$scope = { dirty: s, ctx: o }), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
const Fi = 250, zi = 1e3, lt = 4.5;
function qi(e, t, n) {
  let o, s, i;
  const l = He();
  let { shape: r } = t, { computedStyle: a } = t, { transform: c } = t, { viewportScale: d = 1 } = t, { svgEl: u } = t, h, g = !1, m, y = [];
  const A = () => n(7, g = !0), w = () => n(7, g = !1), v = (_) => {
    if (y.length > 0 || !s.some((Z) => Z.visible)) {
      n(6, h = void 0);
      return;
    }
    const [b, E] = c.elementToImage(_.offsetX, _.offsetY), k = (Z) => Math.pow(Z[0] - b, 2) + Math.pow(Z[1] - E, 2), V = xo(o).reduce((Z, te) => k(te) < k(Z) ? te : Z), C = s.filter((Z) => Z.visible).reduce((Z, te) => k(te.point) < k(Z.point) ? te : Z), q = Math.pow(zi / d, 2);
    k(V) < q || k(C.point) < q ? n(6, h = s.indexOf(C)) : n(6, h = void 0);
  }, p = () => {
    document.activeElement !== u && u.focus();
  }, S = () => {
    n(8, y = []), p();
  }, P = (_) => {
    n(7, g = !0), _.preventDefault(), _.stopPropagation(), m = performance.now();
  }, T = (_, b, E) => (k) => {
    if (!m || Ie || performance.now() - m > Fi) return;
    const V = (q) => q.polygon === _ && q.ring === b && q.point === E, C = y.some(V);
    k.metaKey || k.ctrlKey || k.shiftKey ? C ? n(8, y = y.filter((q) => !V(q))) : n(8, y = [...y, { polygon: _, ring: b, point: E }]) : C && y.length > 1 ? n(8, y = [{ polygon: _, ring: b, point: E }]) : C ? n(8, y = []) : n(8, y = [{ polygon: _, ring: b, point: E }]), p();
  }, L = (_, b, E) => {
    p();
    const k = _.geometry.polygons;
    let V;
    if (b === "SHAPE")
      V = k.map((C) => {
        const q = C.rings.map((Z, te) => ({ points: Z.points.map((se, ve) => [se[0] + E[0], se[1] + E[1]]) })), j = fe(q[0].points);
        return { rings: q, bounds: j };
      });
    else {
      const [C, q, j, Z] = b.split("-").map((te) => parseInt(te));
      V = k.map((te, de) => {
        if (de === q) {
          const se = te.rings.map((Me, Oe) => Oe === j ? { points: Me.points.map((U, ee) => ee === Z ? [U[0] + E[0], U[1] + E[1]] : U) } : Me), ve = fe(se[0].points);
          return { rings: se, bounds: ve };
        } else
          return te;
      });
    }
    return {
      ..._,
      geometry: {
        polygons: V,
        bounds: yt(V)
      }
    };
  }, D = (_) => async (b) => {
    b.stopPropagation();
    const E = s[_], k = o.polygons.map((C, q) => {
      if (q === E.elementIdx) {
        const j = C.rings.map((te, de) => de === E.ringIdx ? { points: [
          ...te.points.slice(0, E.pointIdx + 1),
          E.point,
          ...te.points.slice(E.pointIdx + 1)
        ] } : te), Z = fe(j[0].points);
        return { rings: j, bounds: Z };
      } else
        return C;
    });
    l("change", {
      ...r,
      geometry: {
        polygons: k,
        bounds: yt(k)
      }
    }), await fo();
    const V = [...document.querySelectorAll(".a9s-handle")][_ + 1];
    if (V != null && V.firstChild) {
      const C = new PointerEvent(
        "pointerdown",
        {
          bubbles: !0,
          cancelable: !0,
          clientX: b.clientX,
          clientY: b.clientY,
          pointerId: b.pointerId,
          pointerType: b.pointerType,
          isPrimary: b.isPrimary,
          buttons: b.buttons
        }
      );
      V.firstChild.dispatchEvent(C);
    }
  }, I = () => {
    const _ = o.polygons.map((E, k) => {
      if (y.some((C) => C.polygon === k)) {
        const C = E.rings.map((j, Z) => {
          const te = y.filter((de) => de.polygon === k && de.ring === Z);
          return te.length && j.points.length - te.length >= 3 ? { points: j.points.filter((se, ve) => !te.some((Me) => Me.point === ve)) } : j;
        }), q = fe(C[0].points);
        return { rings: C, bounds: q };
      } else
        return E;
    });
    !$t(o.polygons, _) && (l("change", {
      ...r,
      geometry: {
        polygons: _,
        bounds: yt(_)
      }
    }), n(8, y = []));
  };
  Ve(() => {
    if (Ie) return;
    const _ = (b) => {
      (b.key === "Delete" || b.key === "Backspace") && (b.preventDefault(), I());
    };
    return u.addEventListener("pointermove", v), u.addEventListener("keydown", _), () => {
      u.removeEventListener("pointermove", v), u.removeEventListener("keydown", _);
    };
  });
  const K = `polygon-mask-${Math.random().toString(36).substring(2, 12)}`, X = (_, b, E, { polygon: k, ring: V, point: C }) => k === _ && V === b && C === E;
  function G(_) {
    ue.call(this, e, _);
  }
  function N(_) {
    ue.call(this, e, _);
  }
  function M(_) {
    ue.call(this, e, _);
  }
  return e.$$set = (_) => {
    "shape" in _ && n(0, r = _.shape), "computedStyle" in _ && n(1, a = _.computedStyle), "transform" in _ && n(2, c = _.transform), "viewportScale" in _ && n(3, d = _.viewportScale), "svgEl" in _ && n(4, u = _.svgEl);
  }, e.$$.update = () => {
    e.$$.dirty[0] & /*shape*/
    1 && n(5, o = r.geometry), e.$$.dirty[0] & /*geom, viewportScale*/
    40 && n(10, s = Ie ? [] : Xi(o, d)), e.$$.dirty[0] & /*geom, viewportScale*/
    40 && n(9, i = Mt(o.bounds, lt / d));
  }, [
    r,
    a,
    c,
    d,
    u,
    o,
    h,
    g,
    y,
    i,
    s,
    A,
    w,
    S,
    P,
    T,
    L,
    D,
    K,
    X,
    G,
    N,
    M
  ];
}
class Ki extends pe {
  constructor(t) {
    super(), me(
      this,
      t,
      qi,
      ji,
      ae,
      {
        shape: 0,
        computedStyle: 1,
        transform: 2,
        viewportScale: 3,
        svgEl: 4
      },
      null,
      [-1, -1]
    );
  }
}
const Po = /* @__PURE__ */ new Map([
  [x.RECTANGLE, Vi],
  [x.POLYGON, Oi],
  [x.MULTIPOLYGON, Ki]
]), Wi = (e) => Po.get(e.type), Zi = (e, t) => Po.set(e, t);
function Ji(e, t, n) {
  let o;
  const s = He();
  let { annotation: i } = t, { editor: l } = t, { style: r } = t, { target: a } = t, { transform: c } = t, { viewportScale: d } = t, u;
  return Ve(() => (n(6, u = new l({
    target: a,
    props: {
      shape: i.target.selector,
      computedStyle: o,
      transform: c,
      viewportScale: d,
      svgEl: a.closest("svg")
    }
  })), u.$on("change", (h) => {
    u.$$set({ shape: h.detail }), s("change", h.detail);
  }), u.$on("grab", (h) => s("grab", h.detail)), u.$on("release", (h) => s("release", h.detail)), () => {
    u.$destroy();
  })), e.$$set = (h) => {
    "annotation" in h && n(0, i = h.annotation), "editor" in h && n(1, l = h.editor), "style" in h && n(2, r = h.style), "target" in h && n(3, a = h.target), "transform" in h && n(4, c = h.transform), "viewportScale" in h && n(5, d = h.viewportScale);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style*/
    5 && n(7, o = qe(i, r, { selected: !0, hovered: !0 })), e.$$.dirty & /*annotation, editorComponent*/
    65 && i && (u == null || u.$set({ shape: i.target.selector })), e.$$.dirty & /*editorComponent, transform*/
    80 && u && u.$set({ transform: c }), e.$$.dirty & /*editorComponent, viewportScale*/
    96 && u && u.$set({ viewportScale: d }), e.$$.dirty & /*editorComponent, computedStyle*/
    192 && u && o && u.$set({ computedStyle: o });
  }, [
    i,
    l,
    r,
    a,
    c,
    d,
    u,
    o
  ];
}
class Qi extends pe {
  constructor(t) {
    super(), me(this, t, Ji, null, ae, {
      annotation: 0,
      editor: 1,
      style: 2,
      target: 3,
      transform: 4,
      viewportScale: 5
    });
  }
}
function xi(e, t, n) {
  const o = He();
  let { drawingMode: s } = t, { target: i } = t, { tool: l } = t, { transform: r } = t, { viewportScale: a } = t, c;
  return Ve(() => {
    const d = i.closest("svg"), u = [], h = (g, m, y) => {
      d == null || d.addEventListener(g, m, y), u.push(() => d == null ? void 0 : d.removeEventListener(g, m, y));
    };
    return n(5, c = new l({
      target: i,
      props: {
        addEventListener: h,
        drawingMode: s,
        transform: r,
        viewportScale: a
      }
    })), c.$on("create", (g) => o("create", g.detail)), () => {
      u.forEach((g) => g()), c.$destroy();
    };
  }), e.$$set = (d) => {
    "drawingMode" in d && n(0, s = d.drawingMode), "target" in d && n(1, i = d.target), "tool" in d && n(2, l = d.tool), "transform" in d && n(3, r = d.transform), "viewportScale" in d && n(4, a = d.viewportScale);
  }, e.$$.update = () => {
    e.$$.dirty & /*toolComponent, transform*/
    40 && c && c.$set({ transform: r }), e.$$.dirty & /*toolComponent, viewportScale*/
    48 && c && c.$set({ viewportScale: a });
  }, [s, i, l, r, a, c];
}
class $i extends pe {
  constructor(t) {
    super(), me(this, t, xi, null, ae, {
      drawingMode: 0,
      target: 1,
      tool: 2,
      transform: 3,
      viewportScale: 4
    });
  }
}
function Hn(e) {
  let t, n, o, s, i, l, r, a, c, d;
  return {
    c() {
      t = O("defs"), n = O("mask"), o = O("rect"), a = O("rect"), c = O("rect"), d = O("rect"), f(o, "class", "rect-mask-bg svelte-1a76qe7"), f(o, "x", s = /*x*/
      e[1] - /*buffer*/
      e[5]), f(o, "y", i = /*y*/
      e[2] - /*buffer*/
      e[5]), f(o, "width", l = /*w*/
      e[3] + 2 * /*buffer*/
      e[5]), f(o, "height", r = /*h*/
      e[4] + 2 * /*buffer*/
      e[5]), f(a, "class", "rect-mask-fg svelte-1a76qe7"), f(
        a,
        "x",
        /*x*/
        e[1]
      ), f(
        a,
        "y",
        /*y*/
        e[2]
      ), f(
        a,
        "width",
        /*w*/
        e[3]
      ), f(
        a,
        "height",
        /*h*/
        e[4]
      ), f(
        n,
        "id",
        /*maskId*/
        e[6]
      ), f(n, "class", "a9s-rubberband-rectangle-mask svelte-1a76qe7"), f(c, "class", "a9s-outer"), f(c, "mask", `url(#${/*maskId*/
      e[6]})`), f(
        c,
        "x",
        /*x*/
        e[1]
      ), f(
        c,
        "y",
        /*y*/
        e[2]
      ), f(
        c,
        "width",
        /*w*/
        e[3]
      ), f(
        c,
        "height",
        /*h*/
        e[4]
      ), f(d, "class", "a9s-inner"), f(
        d,
        "x",
        /*x*/
        e[1]
      ), f(
        d,
        "y",
        /*y*/
        e[2]
      ), f(
        d,
        "width",
        /*w*/
        e[3]
      ), f(
        d,
        "height",
        /*h*/
        e[4]
      );
    },
    m(u, h) {
      Y(u, t, h), z(t, n), z(n, o), z(n, a), Y(u, c, h), Y(u, d, h);
    },
    p(u, h) {
      h & /*x, buffer*/
      34 && s !== (s = /*x*/
      u[1] - /*buffer*/
      u[5]) && f(o, "x", s), h & /*y, buffer*/
      36 && i !== (i = /*y*/
      u[2] - /*buffer*/
      u[5]) && f(o, "y", i), h & /*w, buffer*/
      40 && l !== (l = /*w*/
      u[3] + 2 * /*buffer*/
      u[5]) && f(o, "width", l), h & /*h, buffer*/
      48 && r !== (r = /*h*/
      u[4] + 2 * /*buffer*/
      u[5]) && f(o, "height", r), h & /*x*/
      2 && f(
        a,
        "x",
        /*x*/
        u[1]
      ), h & /*y*/
      4 && f(
        a,
        "y",
        /*y*/
        u[2]
      ), h & /*w*/
      8 && f(
        a,
        "width",
        /*w*/
        u[3]
      ), h & /*h*/
      16 && f(
        a,
        "height",
        /*h*/
        u[4]
      ), h & /*x*/
      2 && f(
        c,
        "x",
        /*x*/
        u[1]
      ), h & /*y*/
      4 && f(
        c,
        "y",
        /*y*/
        u[2]
      ), h & /*w*/
      8 && f(
        c,
        "width",
        /*w*/
        u[3]
      ), h & /*h*/
      16 && f(
        c,
        "height",
        /*h*/
        u[4]
      ), h & /*x*/
      2 && f(
        d,
        "x",
        /*x*/
        u[1]
      ), h & /*y*/
      4 && f(
        d,
        "y",
        /*y*/
        u[2]
      ), h & /*w*/
      8 && f(
        d,
        "width",
        /*w*/
        u[3]
      ), h & /*h*/
      16 && f(
        d,
        "height",
        /*h*/
        u[4]
      );
    },
    d(u) {
      u && (B(t), B(c), B(d));
    }
  };
}
function er(e) {
  let t, n = (
    /*origin*/
    e[0] && Hn(e)
  );
  return {
    c() {
      t = O("g"), n && n.c(), f(t, "class", "a9s-annotation a9s-rubberband");
    },
    m(o, s) {
      Y(o, t, s), n && n.m(t, null);
    },
    p(o, [s]) {
      /*origin*/
      o[0] ? n ? n.p(o, s) : (n = Hn(o), n.c(), n.m(t, null)) : n && (n.d(1), n = null);
    },
    i: $,
    o: $,
    d(o) {
      o && B(t), n && n.d();
    }
  };
}
function tr(e, t, n) {
  let o;
  const s = He();
  let { addEventListener: i } = t, { drawingMode: l } = t, { transform: r } = t, { viewportScale: a = 1 } = t, c, d, u, h, g, m, y;
  const A = (P) => {
    const T = P;
    c = performance.now(), l === "drag" && (n(0, d = r.elementToImage(T.offsetX, T.offsetY)), u = d, n(1, h = d[0]), n(2, g = d[1]), n(3, m = 1), n(4, y = 1));
  }, w = (P) => {
    const T = P;
    d && (u = r.elementToImage(T.offsetX, T.offsetY), n(1, h = Math.min(u[0], d[0])), n(2, g = Math.min(u[1], d[1])), n(3, m = Math.abs(u[0] - d[0])), n(4, y = Math.abs(u[1] - d[1])));
  }, v = (P) => {
    const T = P, L = performance.now() - c;
    if (l === "click") {
      if (L > 300) return;
      d ? p() : (n(0, d = r.elementToImage(T.offsetX, T.offsetY)), u = d, n(1, h = d[0]), n(2, g = d[1]), n(3, m = 1), n(4, y = 1));
    } else d && (L > 300 || m * y > 100 ? (T.stopPropagation(), p()) : (n(0, d = void 0), u = void 0));
  }, p = () => {
    if (m * y > 15) {
      const P = {
        type: x.RECTANGLE,
        geometry: {
          bounds: {
            minX: h,
            minY: g,
            maxX: h + m,
            maxY: g + y
          },
          rot: 0,
          x: h,
          y: g,
          w: m,
          h: y
        }
      };
      s("create", P);
    }
    n(0, d = void 0), u = void 0;
  };
  Ve(() => {
    i("pointerdown", A), i("pointermove", w), i("pointerup", v, !0);
  });
  const S = `rect-mask-${Math.random().toString(36).substring(2, 12)}`;
  return e.$$set = (P) => {
    "addEventListener" in P && n(7, i = P.addEventListener), "drawingMode" in P && n(8, l = P.drawingMode), "transform" in P && n(9, r = P.transform), "viewportScale" in P && n(10, a = P.viewportScale);
  }, e.$$.update = () => {
    e.$$.dirty & /*viewportScale*/
    1024 && n(5, o = 2 / a);
  }, [
    d,
    h,
    g,
    m,
    y,
    o,
    S,
    i,
    l,
    r,
    a
  ];
}
class nr extends pe {
  constructor(t) {
    super(), me(this, t, tr, er, ae, {
      addEventListener: 7,
      drawingMode: 8,
      transform: 9,
      viewportScale: 10
    });
  }
}
function jt(e) {
  const t = e.slice(), n = (
    /*coords*/
    t[2].map((o) => o.join(",")).join(" ")
  );
  return t[19] = n, t;
}
function Xn(e) {
  let t, n, o, s, i, l, r, a, c, d, u, h, g, m, y = (
    /*isClosable*/
    e[1] && Gn(e)
  );
  return {
    c() {
      t = O("defs"), n = O("mask"), o = O("rect"), a = O("polygon"), d = O("polygon"), h = O("polygon"), y && y.c(), m = Se(), f(o, "x", s = /*mask*/
      e[3].x), f(o, "y", i = /*mask*/
      e[3].y), f(o, "width", l = /*mask*/
      e[3].w), f(o, "height", r = /*mask*/
      e[3].h), f(o, "class", "svelte-18wrg3t"), f(a, "points", c = /*str*/
      e[19]), f(a, "class", "svelte-18wrg3t"), f(
        n,
        "id",
        /*maskId*/
        e[5]
      ), f(n, "class", "a9s-rubberband-polygon-mask svelte-18wrg3t"), f(d, "class", "a9s-outer"), f(d, "mask", `url(#${/*maskId*/
      e[5]})`), f(d, "points", u = /*str*/
      e[19]), f(h, "class", "a9s-inner"), f(h, "points", g = /*str*/
      e[19]);
    },
    m(A, w) {
      Y(A, t, w), z(t, n), z(n, o), z(n, a), Y(A, d, w), Y(A, h, w), y && y.m(A, w), Y(A, m, w);
    },
    p(A, w) {
      w & /*mask*/
      8 && s !== (s = /*mask*/
      A[3].x) && f(o, "x", s), w & /*mask*/
      8 && i !== (i = /*mask*/
      A[3].y) && f(o, "y", i), w & /*mask*/
      8 && l !== (l = /*mask*/
      A[3].w) && f(o, "width", l), w & /*mask*/
      8 && r !== (r = /*mask*/
      A[3].h) && f(o, "height", r), w & /*coords*/
      4 && c !== (c = /*str*/
      A[19]) && f(a, "points", c), w & /*coords*/
      4 && u !== (u = /*str*/
      A[19]) && f(d, "points", u), w & /*coords*/
      4 && g !== (g = /*str*/
      A[19]) && f(h, "points", g), /*isClosable*/
      A[1] ? y ? y.p(A, w) : (y = Gn(A), y.c(), y.m(m.parentNode, m)) : y && (y.d(1), y = null);
    },
    d(A) {
      A && (B(t), B(d), B(h), B(m)), y && y.d(A);
    }
  };
}
function Gn(e) {
  let t, n, o;
  return {
    c() {
      t = O("circle"), f(t, "class", "a9s-handle svelte-18wrg3t"), f(t, "cx", n = /*points*/
      e[0][0][0]), f(t, "cy", o = /*points*/
      e[0][0][1]), f(
        t,
        "r",
        /*handleRadius*/
        e[4]
      );
    },
    m(s, i) {
      Y(s, t, i);
    },
    p(s, i) {
      i & /*points*/
      1 && n !== (n = /*points*/
      s[0][0][0]) && f(t, "cx", n), i & /*points*/
      1 && o !== (o = /*points*/
      s[0][0][1]) && f(t, "cy", o), i & /*handleRadius*/
      16 && f(
        t,
        "r",
        /*handleRadius*/
        s[4]
      );
    },
    d(s) {
      s && B(t);
    }
  };
}
function or(e) {
  let t, n = (
    /*mask*/
    e[3] && Xn(jt(e))
  );
  return {
    c() {
      t = O("g"), n && n.c(), f(t, "class", "a9s-annotation a9s-rubberband");
    },
    m(o, s) {
      Y(o, t, s), n && n.m(t, null);
    },
    p(o, [s]) {
      /*mask*/
      o[3] ? n ? n.p(jt(o), s) : (n = Xn(jt(o)), n.c(), n.m(t, null)) : n && (n.d(1), n = null);
    },
    i: $,
    o: $,
    d(o) {
      o && B(t), n && n.d();
    }
  };
}
const sr = 20, ir = 1500;
function rr(e, t, n) {
  let o, s, i;
  const l = He();
  let { addEventListener: r } = t, { drawingMode: a } = t, { transform: c } = t, { viewportScale: d = 1 } = t, u, h = [], g, m, y = !1;
  const A = (T) => {
    const L = T, { timeStamp: D, offsetX: I, offsetY: K } = L;
    if (u = { timeStamp: D, offsetX: I, offsetY: K }, a === "drag" && h.length === 0) {
      const X = c.elementToImage(L.offsetX, L.offsetY);
      h.push(X), n(10, g = X);
    }
  }, w = (T) => {
    const L = T;
    if (m && clearTimeout(m), h.length > 0) {
      if (n(10, g = c.elementToImage(L.offsetX, L.offsetY)), h.length > 2) {
        const D = _t(g, h[0]) * d;
        n(1, y = D < sr);
      }
      L.pointerType === "touch" && (m = setTimeout(
        () => {
          p();
        },
        ir
      ));
    }
  }, v = (T) => {
    const L = T;
    if (m && clearTimeout(m), a === "click") {
      const D = L.timeStamp - u.timeStamp, I = _t([u.offsetX, u.offsetY], [L.offsetX, L.offsetY]);
      if (D > 300 || I > 15) return;
      if (y)
        S();
      else if (h.length === 0) {
        const K = c.elementToImage(L.offsetX, L.offsetY);
        h.push(K), n(10, g = K);
      } else
        g && h.push(g);
    } else {
      if (!g) return;
      if (h.length === 1 && _t(h[0], g) <= 4) {
        n(0, h = []), n(10, g = void 0);
        return;
      }
      L.stopImmediatePropagation(), y ? S() : h.push(g);
    }
  }, p = () => {
    if (!g) return;
    const T = h.slice(0, -1);
    if (T.length < 3) return;
    const L = {
      type: x.POLYGON,
      geometry: {
        bounds: fe(h),
        points: T
      }
    };
    Jt(L) > 4 && (n(0, h = []), n(10, g = void 0), l("create", L));
  }, S = () => {
    const T = {
      type: x.POLYGON,
      geometry: {
        bounds: fe(h),
        points: [...h]
      }
    };
    n(0, h = []), n(10, g = void 0), l("create", T);
  };
  Ve(() => {
    r("pointerdown", A, !0), r("pointermove", w), r("pointerup", v, !0), r("dblclick", p, !0);
  });
  const P = `polygon-mask-${Math.random().toString(36).substring(2, 12)}`;
  return e.$$set = (T) => {
    "addEventListener" in T && n(6, r = T.addEventListener), "drawingMode" in T && n(7, a = T.drawingMode), "transform" in T && n(8, c = T.transform), "viewportScale" in T && n(9, d = T.viewportScale);
  }, e.$$.update = () => {
    e.$$.dirty & /*viewportScale*/
    512 && n(4, o = 4 / d), e.$$.dirty & /*cursor, isClosable, points*/
    1027 && n(2, s = g ? y ? h : [...h, g] : []), e.$$.dirty & /*coords, viewportScale*/
    516 && n(3, i = s.length > 0 ? Mt(fe(s), 2 / d) : void 0);
  }, [
    h,
    y,
    s,
    i,
    o,
    P,
    r,
    a,
    c,
    d,
    g
  ];
}
class lr extends pe {
  constructor(t) {
    super(), me(this, t, rr, or, ae, {
      addEventListener: 6,
      drawingMode: 7,
      transform: 8,
      viewportScale: 9
    });
  }
}
const rn = /* @__PURE__ */ new Map([
  ["rectangle", { tool: nr }],
  ["polygon", { tool: lr }]
]), To = () => [...rn.keys()], Lo = (e) => rn.get(e), ar = (e, t, n = {}) => rn.set(e, { tool: t, opts: n });
function cr(e) {
  let t, n, o, s, i;
  return {
    c() {
      t = O("g"), n = O("ellipse"), s = O("ellipse"), f(n, "class", "a9s-outer"), f(n, "style", o = /*computedStyle*/
      e[1] ? "display:none;" : void 0), f(
        n,
        "cx",
        /*cx*/
        e[2]
      ), f(
        n,
        "cy",
        /*cy*/
        e[3]
      ), f(
        n,
        "rx",
        /*rx*/
        e[4]
      ), f(
        n,
        "ry",
        /*ry*/
        e[5]
      ), f(s, "class", "a9s-inner"), f(
        s,
        "style",
        /*computedStyle*/
        e[1]
      ), f(
        s,
        "cx",
        /*cx*/
        e[2]
      ), f(
        s,
        "cy",
        /*cy*/
        e[3]
      ), f(
        s,
        "rx",
        /*rx*/
        e[4]
      ), f(
        s,
        "ry",
        /*ry*/
        e[5]
      ), f(t, "class", "a9s-annotation"), f(t, "data-id", i = /*annotation*/
      e[0].id);
    },
    m(l, r) {
      Y(l, t, r), z(t, n), z(t, s);
    },
    p(l, [r]) {
      r & /*computedStyle*/
      2 && o !== (o = /*computedStyle*/
      l[1] ? "display:none;" : void 0) && f(n, "style", o), r & /*computedStyle*/
      2 && f(
        s,
        "style",
        /*computedStyle*/
        l[1]
      ), r & /*annotation*/
      1 && i !== (i = /*annotation*/
      l[0].id) && f(t, "data-id", i);
    },
    i: $,
    o: $,
    d(l) {
      l && B(t);
    }
  };
}
function fr(e, t, n) {
  let o, { annotation: s } = t, { geom: i } = t, { style: l } = t, { state: r = void 0 } = t;
  const { cx: a, cy: c, rx: d, ry: u } = i;
  return e.$$set = (h) => {
    "annotation" in h && n(0, s = h.annotation), "geom" in h && n(6, i = h.geom), "style" in h && n(7, l = h.style), "state" in h && n(8, r = h.state);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style, state*/
    385 && n(1, o = qe(s, l, r));
  }, [s, o, a, c, d, u, i, l, r];
}
class ur extends pe {
  constructor(t) {
    super(), me(this, t, fr, cr, ae, {
      annotation: 0,
      geom: 6,
      style: 7,
      state: 8
    });
  }
}
function dr(e) {
  let t, n, o, s, i;
  return {
    c() {
      t = O("g"), n = O("line"), s = O("line"), f(n, "class", "a9s-outer"), f(n, "style", o = /*computedStyle*/
      e[1] ? "display:none;" : void 0), f(
        n,
        "x1",
        /*x1*/
        e[2]
      ), f(
        n,
        "y1",
        /*y1*/
        e[3]
      ), f(
        n,
        "x2",
        /*x2*/
        e[4]
      ), f(
        n,
        "y2",
        /*y2*/
        e[5]
      ), f(s, "class", "a9s-inner"), f(
        s,
        "style",
        /*computedStyle*/
        e[1]
      ), f(
        s,
        "x1",
        /*x1*/
        e[2]
      ), f(
        s,
        "y1",
        /*y1*/
        e[3]
      ), f(
        s,
        "x2",
        /*x2*/
        e[4]
      ), f(
        s,
        "y2",
        /*y2*/
        e[5]
      ), f(t, "class", "a9s-annotation"), f(t, "data-id", i = /*annotation*/
      e[0].id);
    },
    m(l, r) {
      Y(l, t, r), z(t, n), z(t, s);
    },
    p(l, [r]) {
      r & /*computedStyle*/
      2 && o !== (o = /*computedStyle*/
      l[1] ? "display:none;" : void 0) && f(n, "style", o), r & /*computedStyle*/
      2 && f(
        s,
        "style",
        /*computedStyle*/
        l[1]
      ), r & /*annotation*/
      1 && i !== (i = /*annotation*/
      l[0].id) && f(t, "data-id", i);
    },
    i: $,
    o: $,
    d(l) {
      l && B(t);
    }
  };
}
function hr(e, t, n) {
  let o, { annotation: s } = t, { geom: i } = t, { style: l } = t, { state: r = void 0 } = t;
  const { points: a } = i, [[c, d], [u, h]] = a;
  return e.$$set = (g) => {
    "annotation" in g && n(0, s = g.annotation), "geom" in g && n(6, i = g.geom), "style" in g && n(7, l = g.style), "state" in g && n(8, r = g.state);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style, state*/
    385 && n(1, o = qe(s, l, r));
  }, [s, o, c, d, u, h, i, l, r];
}
class gr extends pe {
  constructor(t) {
    super(), me(this, t, hr, dr, ae, {
      annotation: 0,
      geom: 6,
      style: 7,
      state: 8
    });
  }
}
function jn(e, t, n) {
  const o = e.slice();
  return o[6] = t[n], o;
}
function Fn(e) {
  let t, n, o;
  return {
    c() {
      t = O("path"), o = O("path"), f(t, "class", "a9s-outer"), f(t, "style", n = /*computedStyle*/
      e[1] ? "display:none;" : void 0), f(t, "fill-rule", "evenodd"), f(t, "d", Le(
        /*polygonElement*/
        e[6]
      )), f(o, "class", "a9s-inner"), f(
        o,
        "style",
        /*computedStyle*/
        e[1]
      ), f(o, "fill-rule", "evenodd"), f(o, "d", Le(
        /*polygonElement*/
        e[6]
      ));
    },
    m(s, i) {
      Y(s, t, i), Y(s, o, i);
    },
    p(s, i) {
      i & /*computedStyle*/
      2 && n !== (n = /*computedStyle*/
      s[1] ? "display:none;" : void 0) && f(t, "style", n), i & /*computedStyle*/
      2 && f(
        o,
        "style",
        /*computedStyle*/
        s[1]
      );
    },
    d(s) {
      s && (B(t), B(o));
    }
  };
}
function mr(e) {
  let t, n, o = Ee(
    /*polygons*/
    e[2]
  ), s = [];
  for (let i = 0; i < o.length; i += 1)
    s[i] = Fn(jn(e, o, i));
  return {
    c() {
      t = O("g");
      for (let i = 0; i < s.length; i += 1)
        s[i].c();
      f(t, "class", "a9s-annotation"), f(t, "data-id", n = /*annotation*/
      e[0].id);
    },
    m(i, l) {
      Y(i, t, l);
      for (let r = 0; r < s.length; r += 1)
        s[r] && s[r].m(t, null);
    },
    p(i, [l]) {
      if (l & /*computedStyle, polygons, undefined*/
      6) {
        o = Ee(
          /*polygons*/
          i[2]
        );
        let r;
        for (r = 0; r < o.length; r += 1) {
          const a = jn(i, o, r);
          s[r] ? s[r].p(a, l) : (s[r] = Fn(a), s[r].c(), s[r].m(t, null));
        }
        for (; r < s.length; r += 1)
          s[r].d(1);
        s.length = o.length;
      }
      l & /*annotation*/
      1 && n !== (n = /*annotation*/
      i[0].id) && f(t, "data-id", n);
    },
    i: $,
    o: $,
    d(i) {
      i && B(t), ze(s, i);
    }
  };
}
function pr(e, t, n) {
  let o, { annotation: s } = t, { geom: i } = t, { style: l } = t, { state: r = void 0 } = t;
  const { polygons: a } = i;
  return e.$$set = (c) => {
    "annotation" in c && n(0, s = c.annotation), "geom" in c && n(3, i = c.geom), "style" in c && n(4, l = c.style), "state" in c && n(5, r = c.state);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style, state*/
    49 && n(1, o = qe(s, l, r));
  }, [s, o, a, i, l, r];
}
class _r extends pe {
  constructor(t) {
    super(), me(this, t, pr, mr, ae, {
      annotation: 0,
      geom: 3,
      style: 4,
      state: 5
    });
  }
}
function yr(e) {
  let t, n, o, s, i;
  return {
    c() {
      t = O("g"), n = O("polygon"), s = O("polygon"), f(n, "class", "a9s-outer"), f(n, "style", o = /*computedStyle*/
      e[1] ? "display:none;" : void 0), f(
        n,
        "points",
        /*points*/
        e[2].map(wr).join(" ")
      ), f(s, "class", "a9s-inner"), f(
        s,
        "style",
        /*computedStyle*/
        e[1]
      ), f(
        s,
        "points",
        /*points*/
        e[2].map(br).join(" ")
      ), f(t, "class", "a9s-annotation"), f(t, "data-id", i = /*annotation*/
      e[0].id);
    },
    m(l, r) {
      Y(l, t, r), z(t, n), z(t, s);
    },
    p(l, [r]) {
      r & /*computedStyle*/
      2 && o !== (o = /*computedStyle*/
      l[1] ? "display:none;" : void 0) && f(n, "style", o), r & /*computedStyle*/
      2 && f(
        s,
        "style",
        /*computedStyle*/
        l[1]
      ), r & /*annotation*/
      1 && i !== (i = /*annotation*/
      l[0].id) && f(t, "data-id", i);
    },
    i: $,
    o: $,
    d(l) {
      l && B(t);
    }
  };
}
const wr = (e) => e.join(","), br = (e) => e.join(",");
function Er(e, t, n) {
  let o, { annotation: s } = t, { geom: i } = t, { style: l } = t, { state: r = void 0 } = t;
  const { points: a } = i;
  return e.$$set = (c) => {
    "annotation" in c && n(0, s = c.annotation), "geom" in c && n(3, i = c.geom), "style" in c && n(4, l = c.style), "state" in c && n(5, r = c.state);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style, state*/
    49 && n(1, o = qe(s, l, r));
  }, [s, o, a, i, l, r];
}
class vr extends pe {
  constructor(t) {
    super(), me(this, t, Er, yr, ae, {
      annotation: 0,
      geom: 3,
      style: 4,
      state: 5
    });
  }
}
function Ar(e) {
  let t, n, o, s, i, l, r;
  return {
    c() {
      t = O("g"), n = O("path"), i = O("path"), f(n, "class", o = xe(`a9s-outer ${/*cssClass*/
      e[1]}`) + " svelte-1w0132l"), f(n, "style", s = /*computedStyle*/
      e[3] ? "display:none;" : void 0), f(
        n,
        "d",
        /*d*/
        e[2]
      ), f(i, "class", l = xe(`a9s-inner ${/*cssClass*/
      e[1]}`) + " svelte-1w0132l"), f(
        i,
        "style",
        /*computedStyle*/
        e[3]
      ), f(
        i,
        "d",
        /*d*/
        e[2]
      ), f(t, "class", "a9s-annotation"), f(t, "data-id", r = /*annotation*/
      e[0].id);
    },
    m(a, c) {
      Y(a, t, c), z(t, n), z(t, i);
    },
    p(a, [c]) {
      c & /*cssClass*/
      2 && o !== (o = xe(`a9s-outer ${/*cssClass*/
      a[1]}`) + " svelte-1w0132l") && f(n, "class", o), c & /*computedStyle*/
      8 && s !== (s = /*computedStyle*/
      a[3] ? "display:none;" : void 0) && f(n, "style", s), c & /*d*/
      4 && f(
        n,
        "d",
        /*d*/
        a[2]
      ), c & /*cssClass*/
      2 && l !== (l = xe(`a9s-inner ${/*cssClass*/
      a[1]}`) + " svelte-1w0132l") && f(i, "class", l), c & /*computedStyle*/
      8 && f(
        i,
        "style",
        /*computedStyle*/
        a[3]
      ), c & /*d*/
      4 && f(
        i,
        "d",
        /*d*/
        a[2]
      ), c & /*annotation*/
      1 && r !== (r = /*annotation*/
      a[0].id) && f(t, "data-id", r);
    },
    i: $,
    o: $,
    d(a) {
      a && B(t);
    }
  };
}
function Sr(e, t, n) {
  let o, s, i, { annotation: l } = t, { geom: r } = t, { style: a } = t, { state: c = void 0 } = t;
  return e.$$set = (d) => {
    "annotation" in d && n(0, l = d.annotation), "geom" in d && n(4, r = d.geom), "style" in d && n(5, a = d.style), "state" in d && n(6, c = d.state);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style, state*/
    97 && n(3, o = qe(l, a, c)), e.$$.dirty & /*geom*/
    16 && n(2, s = _o(r)), e.$$.dirty & /*geom*/
    16 && n(1, i = r.closed ? "closed" : "open");
  }, [l, i, s, o, r, a, c];
}
class Mr extends pe {
  constructor(t) {
    super(), me(this, t, Sr, Ar, ae, {
      annotation: 0,
      geom: 4,
      style: 5,
      state: 6
    });
  }
}
function kr(e) {
  let t, n, o, s, i, l;
  return {
    c() {
      t = O("g"), n = O("g"), o = O("rect"), i = O("rect"), f(o, "class", "a9s-outer"), f(o, "style", s = /*computedStyle*/
      e[6] ? "display:none;" : void 0), f(
        o,
        "x",
        /*x*/
        e[4]
      ), f(
        o,
        "y",
        /*y*/
        e[2]
      ), f(
        o,
        "width",
        /*w*/
        e[3]
      ), f(
        o,
        "height",
        /*h*/
        e[1]
      ), f(i, "class", "a9s-inner"), f(
        i,
        "style",
        /*computedStyle*/
        e[6]
      ), f(
        i,
        "x",
        /*x*/
        e[4]
      ), f(
        i,
        "y",
        /*y*/
        e[2]
      ), f(
        i,
        "width",
        /*w*/
        e[3]
      ), f(
        i,
        "height",
        /*h*/
        e[1]
      ), f(
        n,
        "transform",
        /*rectTransform*/
        e[5]
      ), f(t, "class", "a9s-annotation"), f(t, "data-id", l = /*annotation*/
      e[0].id);
    },
    m(r, a) {
      Y(r, t, a), z(t, n), z(n, o), z(n, i);
    },
    p(r, [a]) {
      a & /*computedStyle*/
      64 && s !== (s = /*computedStyle*/
      r[6] ? "display:none;" : void 0) && f(o, "style", s), a & /*x*/
      16 && f(
        o,
        "x",
        /*x*/
        r[4]
      ), a & /*y*/
      4 && f(
        o,
        "y",
        /*y*/
        r[2]
      ), a & /*w*/
      8 && f(
        o,
        "width",
        /*w*/
        r[3]
      ), a & /*h*/
      2 && f(
        o,
        "height",
        /*h*/
        r[1]
      ), a & /*computedStyle*/
      64 && f(
        i,
        "style",
        /*computedStyle*/
        r[6]
      ), a & /*x*/
      16 && f(
        i,
        "x",
        /*x*/
        r[4]
      ), a & /*y*/
      4 && f(
        i,
        "y",
        /*y*/
        r[2]
      ), a & /*w*/
      8 && f(
        i,
        "width",
        /*w*/
        r[3]
      ), a & /*h*/
      2 && f(
        i,
        "height",
        /*h*/
        r[1]
      ), a & /*rectTransform*/
      32 && f(
        n,
        "transform",
        /*rectTransform*/
        r[5]
      ), a & /*annotation*/
      1 && l !== (l = /*annotation*/
      r[0].id) && f(t, "data-id", l);
    },
    i: $,
    o: $,
    d(r) {
      r && B(t);
    }
  };
}
function Pr(e, t, n) {
  let o, s, i, l, r, a, c, { annotation: d } = t, { geom: u } = t, { style: h } = t, { state: g = void 0 } = t;
  return e.$$set = (m) => {
    "annotation" in m && n(0, d = m.annotation), "geom" in m && n(7, u = m.geom), "style" in m && n(8, h = m.style), "state" in m && n(9, g = m.state);
  }, e.$$.update = () => {
    e.$$.dirty & /*annotation, style, state*/
    769 && n(6, o = qe(d, h, g)), e.$$.dirty & /*geom*/
    128 && n(4, { x: s, y: i, w: l, h: r, rot: a } = u, s, (n(2, i), n(7, u)), (n(3, l), n(7, u)), (n(1, r), n(7, u)), (n(10, a), n(7, u))), e.$$.dirty & /*rot, x, w, y, h*/
    1054 && n(5, c = (a ?? 0) !== 0 ? `translate(${s + l / 2}, ${i + r / 2}) rotate(${(a ?? 0) * 180 / Math.PI}) translate(${-(s + l / 2)}, ${-(i + r / 2)})` : void 0);
  }, [d, r, i, l, s, c, o, u, h, g, a];
}
class Tr extends pe {
  constructor(t) {
    super(), me(this, t, Pr, kr, ae, {
      annotation: 0,
      geom: 7,
      style: 8,
      state: 9
    });
  }
}
const dl = {
  elementToImage: (e, t) => [e, t]
}, Lr = (e) => ({
  // Maps element-offset coordinates to image space proportionally via the
  // viewBox, which always equals the image's natural size. Deliberately
  // avoids getScreenCTM: browsers disagree on whether CSS transforms on HTML
  // ancestors are reflected in the CTM (e.g. WebKit bug 209220), which breaks
  // drawing and editing when the annotator is a descendant of a CSS-transformed
  // container such as a pan-zoom wrapper.
  elementToImage: (t, n) => {
    const { width: o, height: s } = e.viewBox.baseVal;
    return [
      t / e.clientWidth * o,
      n / e.clientHeight * s
    ];
  }
}), Ir = 250, Or = (e, t) => {
  const n = He();
  let o;
  return { onPointerDown: () => o = performance.now(), onPointerUp: (l) => {
    if (performance.now() - o < Ir) {
      const { x: a, y: c } = Io(l, e), d = Ie ? 10 : 2, u = t.getAt(a, c, void 0, d);
      u ? n("click", { originalEvent: l, annotation: u }) : n("click", { originalEvent: l });
    }
  } };
}, Io = (e, t) => {
  const n = t.getBoundingClientRect(), { width: o, height: s } = t.viewBox.baseVal;
  return {
    x: (e.clientX - n.x) / n.width * o,
    y: (e.clientY - n.y) / n.height * s
  };
};
function zn(e, t, n) {
  const o = e.slice();
  return o[42] = t[n], o;
}
function qn(e, t, n) {
  const o = e.slice();
  return o[45] = t[n], o;
}
function Ft(e) {
  const t = e.slice(), n = (
    /*annotation*/
    t[45].target.selector
  );
  t[48] = n;
  const o = (
    /*getAnnotationState*/
    t[24](
      /*annotation*/
      t[45],
      /*selectedIds*/
      t[13],
      /*$hover*/
      t[7]
    )
  );
  return t[49] = o, t;
}
function Kn(e) {
  let t = (
    /*annotation*/
    e[45]
  ), n, o, s = Wn(e);
  return {
    c() {
      s.c(), n = Se();
    },
    m(i, l) {
      s.m(i, l), Y(i, n, l), o = !0;
    },
    p(i, l) {
      l[0] & /*$store*/
      524288 && ae(t, t = /*annotation*/
      i[45]) ? (ye(), F(s, 1, 1, $), we(), s = Wn(i), s.c(), H(s, 1), s.m(n.parentNode, n)) : s.p(i, l);
    },
    i(i) {
      o || (H(s), o = !0);
    },
    o(i) {
      F(s), o = !1;
    },
    d(i) {
      i && B(n), s.d(i);
    }
  };
}
function Cr(e) {
  let t, n;
  return t = new gr({
    props: {
      annotation: (
        /*annotation*/
        e[45]
      ),
      geom: (
        /*selector*/
        e[48].geometry
      ),
      state: (
        /*annotationState*/
        e[49]
      ),
      style: (
        /*style*/
        e[1]
      )
    }
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*$store*/
      524288 && (i.annotation = /*annotation*/
      o[45]), s[0] & /*$store*/
      524288 && (i.geom = /*selector*/
      o[48].geometry), s[0] & /*$store, selectedIds, $hover*/
      532608 && (i.state = /*annotationState*/
      o[49]), s[0] & /*style*/
      2 && (i.style = /*style*/
      o[1]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Dr(e) {
  let t, n;
  return t = new Mr({
    props: {
      annotation: (
        /*annotation*/
        e[45]
      ),
      geom: (
        /*selector*/
        e[48].geometry
      ),
      state: (
        /*annotationState*/
        e[49]
      ),
      style: (
        /*style*/
        e[1]
      )
    }
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*$store*/
      524288 && (i.annotation = /*annotation*/
      o[45]), s[0] & /*$store*/
      524288 && (i.geom = /*selector*/
      o[48].geometry), s[0] & /*$store, selectedIds, $hover*/
      532608 && (i.state = /*annotationState*/
      o[49]), s[0] & /*style*/
      2 && (i.style = /*style*/
      o[1]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Nr(e) {
  let t, n;
  return t = new _r({
    props: {
      annotation: (
        /*annotation*/
        e[45]
      ),
      geom: (
        /*selector*/
        e[48].geometry
      ),
      state: (
        /*annotationState*/
        e[49]
      ),
      style: (
        /*style*/
        e[1]
      )
    }
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*$store*/
      524288 && (i.annotation = /*annotation*/
      o[45]), s[0] & /*$store*/
      524288 && (i.geom = /*selector*/
      o[48].geometry), s[0] & /*$store, selectedIds, $hover*/
      532608 && (i.state = /*annotationState*/
      o[49]), s[0] & /*style*/
      2 && (i.style = /*style*/
      o[1]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Rr(e) {
  let t, n;
  return t = new vr({
    props: {
      annotation: (
        /*annotation*/
        e[45]
      ),
      geom: (
        /*selector*/
        e[48].geometry
      ),
      state: (
        /*annotationState*/
        e[49]
      ),
      style: (
        /*style*/
        e[1]
      )
    }
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*$store*/
      524288 && (i.annotation = /*annotation*/
      o[45]), s[0] & /*$store*/
      524288 && (i.geom = /*selector*/
      o[48].geometry), s[0] & /*$store, selectedIds, $hover*/
      532608 && (i.state = /*annotationState*/
      o[49]), s[0] & /*style*/
      2 && (i.style = /*style*/
      o[1]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Br(e) {
  let t, n;
  return t = new Tr({
    props: {
      annotation: (
        /*annotation*/
        e[45]
      ),
      geom: (
        /*selector*/
        e[48].geometry
      ),
      state: (
        /*annotationState*/
        e[49]
      ),
      style: (
        /*style*/
        e[1]
      )
    }
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*$store*/
      524288 && (i.annotation = /*annotation*/
      o[45]), s[0] & /*$store*/
      524288 && (i.geom = /*selector*/
      o[48].geometry), s[0] & /*$store, selectedIds, $hover*/
      532608 && (i.state = /*annotationState*/
      o[49]), s[0] & /*style*/
      2 && (i.style = /*style*/
      o[1]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function Yr(e) {
  var o;
  let t, n;
  return t = new ur({
    props: {
      annotation: (
        /*annotation*/
        e[45]
      ),
      geom: (
        /*selector*/
        (o = e[48]) == null ? void 0 : o.geometry
      ),
      state: (
        /*annotationState*/
        e[49]
      ),
      style: (
        /*style*/
        e[1]
      )
    }
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(s, i) {
      re(t, s, i), n = !0;
    },
    p(s, i) {
      var r;
      const l = {};
      i[0] & /*$store*/
      524288 && (l.annotation = /*annotation*/
      s[45]), i[0] & /*$store*/
      524288 && (l.geom = /*selector*/
      (r = s[48]) == null ? void 0 : r.geometry), i[0] & /*$store, selectedIds, $hover*/
      532608 && (l.state = /*annotationState*/
      s[49]), i[0] & /*style*/
      2 && (l.style = /*style*/
      s[1]), t.$set(l);
    },
    i(s) {
      n || (H(t.$$.fragment, s), n = !0);
    },
    o(s) {
      F(t.$$.fragment, s), n = !1;
    },
    d(s) {
      le(t, s);
    }
  };
}
function Wn(e) {
  let t, n, o, s;
  const i = [
    Yr,
    Br,
    Rr,
    Nr,
    Dr,
    Cr
  ], l = [];
  function r(a, c) {
    var d, u, h, g, m, y;
    return (
      /*selector*/
      ((d = a[48]) == null ? void 0 : d.type) === x.ELLIPSE ? 0 : (
        /*selector*/
        ((u = a[48]) == null ? void 0 : u.type) === x.RECTANGLE ? 1 : (
          /*selector*/
          ((h = a[48]) == null ? void 0 : h.type) === x.POLYGON ? 2 : (
            /*selector*/
            ((g = a[48]) == null ? void 0 : g.type) === x.MULTIPOLYGON ? 3 : (
              /*selector*/
              ((m = a[48]) == null ? void 0 : m.type) === x.POLYLINE ? 4 : (
                /*selector*/
                ((y = a[48]) == null ? void 0 : y.type) === x.LINE ? 5 : -1
              )
            )
          )
        )
      )
    );
  }
  return ~(t = r(e)) && (n = l[t] = i[t](e)), {
    c() {
      n && n.c(), o = Se();
    },
    m(a, c) {
      ~t && l[t].m(a, c), Y(a, o, c), s = !0;
    },
    p(a, c) {
      let d = t;
      t = r(a), t === d ? ~t && l[t].p(a, c) : (n && (ye(), F(l[d], 1, 1, () => {
        l[d] = null;
      }), we()), ~t ? (n = l[t], n ? n.p(a, c) : (n = l[t] = i[t](a), n.c()), H(n, 1), n.m(o.parentNode, o)) : n = null);
    },
    i(a) {
      s || (H(n), s = !0);
    },
    o(a) {
      F(n), s = !1;
    },
    d(a) {
      a && B(o), ~t && l[t].d(a);
    }
  };
}
function Zn(e) {
  let t = St(
    /*annotation*/
    e[45]
  ) && !/*isEditable*/
  e[11](
    /*annotation*/
    e[45]
  ), n, o, s = t && Kn(Ft(e));
  return {
    c() {
      s && s.c(), n = Se();
    },
    m(i, l) {
      s && s.m(i, l), Y(i, n, l), o = !0;
    },
    p(i, l) {
      l[0] & /*$store, isEditable*/
      526336 && (t = St(
        /*annotation*/
        i[45]
      ) && !/*isEditable*/
      i[11](
        /*annotation*/
        i[45]
      )), t ? s ? (s.p(Ft(i), l), l[0] & /*$store, isEditable*/
      526336 && H(s, 1)) : (s = Kn(Ft(i)), s.c(), H(s, 1), s.m(n.parentNode, n)) : s && (ye(), F(s, 1, 1, () => {
        s = null;
      }), we());
    },
    i(i) {
      o || (H(s), o = !0);
    },
    o(i) {
      F(s), o = !1;
    },
    d(i) {
      i && B(n), s && s.d(i);
    }
  };
}
function Jn(e) {
  let t, n, o, s;
  const i = [Vr, Ur], l = [];
  function r(a, c) {
    return (
      /*editors*/
      a[6] ? 0 : (
        /*tool*/
        a[18] && /*drawingEnabled*/
        a[0] ? 1 : -1
      )
    );
  }
  return ~(t = r(e)) && (n = l[t] = i[t](e)), {
    c() {
      n && n.c(), o = Se();
    },
    m(a, c) {
      ~t && l[t].m(a, c), Y(a, o, c), s = !0;
    },
    p(a, c) {
      let d = t;
      t = r(a), t === d ? ~t && l[t].p(a, c) : (n && (ye(), F(l[d], 1, 1, () => {
        l[d] = null;
      }), we()), ~t ? (n = l[t], n ? n.p(a, c) : (n = l[t] = i[t](a), n.c()), H(n, 1), n.m(o.parentNode, o)) : n = null);
    },
    i(a) {
      s || (H(n), s = !0);
    },
    o(a) {
      F(n), s = !1;
    },
    d(a) {
      a && B(o), ~t && l[t].d(a);
    }
  };
}
function Ur(e) {
  let t = `${/*toolName*/
  e[2]}-${/*toolMountKey*/
  e[8]}`, n, o, s = Qn(e);
  return {
    c() {
      s.c(), n = Se();
    },
    m(i, l) {
      s.m(i, l), Y(i, n, l), o = !0;
    },
    p(i, l) {
      l[0] & /*toolName, toolMountKey*/
      260 && ae(t, t = `${/*toolName*/
      i[2]}-${/*toolMountKey*/
      i[8]}`) ? (ye(), F(s, 1, 1, $), we(), s = Qn(i), s.c(), H(s, 1), s.m(n.parentNode, n)) : s.p(i, l);
    },
    i(i) {
      o || (H(s), o = !0);
    },
    o(i) {
      F(s), o = !1;
    },
    d(i) {
      i && B(n), s.d(i);
    }
  };
}
function Vr(e) {
  let t, n, o = Ee(
    /*editors*/
    e[6]
  ), s = [];
  for (let l = 0; l < o.length; l += 1)
    s[l] = $n(zn(e, o, l));
  const i = (l) => F(s[l], 1, 1, () => {
    s[l] = null;
  });
  return {
    c() {
      for (let l = 0; l < s.length; l += 1)
        s[l].c();
      t = Se();
    },
    m(l, r) {
      for (let a = 0; a < s.length; a += 1)
        s[a] && s[a].m(l, r);
      Y(l, t, r), n = !0;
    },
    p(l, r) {
      if (r[0] & /*editors, drawingEl, style, transform, $scale, onChangeSelected*/
      68223554) {
        o = Ee(
          /*editors*/
          l[6]
        );
        let a;
        for (a = 0; a < o.length; a += 1) {
          const c = zn(l, o, a);
          s[a] ? (s[a].p(c, r), H(s[a], 1)) : (s[a] = $n(c), s[a].c(), H(s[a], 1), s[a].m(t.parentNode, t));
        }
        for (ye(), a = o.length; a < s.length; a += 1)
          i(a);
        we();
      }
    },
    i(l) {
      if (!n) {
        for (let r = 0; r < o.length; r += 1)
          H(s[r]);
        n = !0;
      }
    },
    o(l) {
      s = s.filter(Boolean);
      for (let r = 0; r < s.length; r += 1)
        F(s[r]);
      n = !1;
    },
    d(l) {
      l && B(t), ze(s, l);
    }
  };
}
function Qn(e) {
  let t, n;
  return t = new $i({
    props: {
      target: (
        /*drawingEl*/
        e[9]
      ),
      tool: (
        /*tool*/
        e[18]
      ),
      drawingMode: (
        /*drawingMode*/
        e[17]
      ),
      transform: (
        /*transform*/
        e[16]
      ),
      viewportScale: (
        /*$scale*/
        e[20]
      )
    }
  }), t.$on(
    "create",
    /*onSelectionCreated*/
    e[25]
  ), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      const i = {};
      s[0] & /*drawingEl*/
      512 && (i.target = /*drawingEl*/
      o[9]), s[0] & /*tool*/
      262144 && (i.tool = /*tool*/
      o[18]), s[0] & /*drawingMode*/
      131072 && (i.drawingMode = /*drawingMode*/
      o[17]), s[0] & /*transform*/
      65536 && (i.transform = /*transform*/
      o[16]), s[0] & /*$scale*/
      1048576 && (i.viewportScale = /*$scale*/
      o[20]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function xn(e) {
  let t, n;
  return t = new Qi({
    props: {
      target: (
        /*drawingEl*/
        e[9]
      ),
      editor: (
        /*editable*/
        e[42].editor
      ),
      annotation: (
        /*editable*/
        e[42].annotation
      ),
      style: (
        /*style*/
        e[1]
      ),
      transform: (
        /*transform*/
        e[16]
      ),
      viewportScale: (
        /*$scale*/
        e[20]
      )
    }
  }), t.$on("change", function() {
    ie(
      /*onChangeSelected*/
      e[26](
        /*editable*/
        e[42].annotation
      )
    ) && e[26](
      /*editable*/
      e[42].annotation
    ).apply(this, arguments);
  }), {
    c() {
      ce(t.$$.fragment);
    },
    m(o, s) {
      re(t, o, s), n = !0;
    },
    p(o, s) {
      e = o;
      const i = {};
      s[0] & /*drawingEl*/
      512 && (i.target = /*drawingEl*/
      e[9]), s[0] & /*editors*/
      64 && (i.editor = /*editable*/
      e[42].editor), s[0] & /*editors*/
      64 && (i.annotation = /*editable*/
      e[42].annotation), s[0] & /*style*/
      2 && (i.style = /*style*/
      e[1]), s[0] & /*transform*/
      65536 && (i.transform = /*transform*/
      e[16]), s[0] & /*$scale*/
      1048576 && (i.viewportScale = /*$scale*/
      e[20]), t.$set(i);
    },
    i(o) {
      n || (H(t.$$.fragment, o), n = !0);
    },
    o(o) {
      F(t.$$.fragment, o), n = !1;
    },
    d(o) {
      le(t, o);
    }
  };
}
function $n(e) {
  let t = (
    /*editable*/
    e[42].annotation.id
  ), n, o, s = xn(e);
  return {
    c() {
      s.c(), n = Se();
    },
    m(i, l) {
      s.m(i, l), Y(i, n, l), o = !0;
    },
    p(i, l) {
      l[0] & /*editors*/
      64 && ae(t, t = /*editable*/
      i[42].annotation.id) ? (ye(), F(s, 1, 1, $), we(), s = xn(i), s.c(), H(s, 1), s.m(n.parentNode, n)) : s.p(i, l);
    },
    i(i) {
      o || (H(s), o = !0);
    },
    o(i) {
      F(s), o = !1;
    },
    d(i) {
      i && B(n), s.d(i);
    }
  };
}
function Hr(e) {
  let t, n, o, s, i, l, r = Ee(
    /*$store*/
    e[19].filter(
      /*func*/
      e[37]
    )
  ), a = [];
  for (let u = 0; u < r.length; u += 1)
    a[u] = Zn(qn(e, r, u));
  const c = (u) => F(a[u], 1, 1, () => {
    a[u] = null;
  });
  let d = (
    /*drawingEl*/
    e[9] && Jn(e)
  );
  return {
    c() {
      t = O("svg"), n = O("g");
      for (let u = 0; u < a.length; u += 1)
        a[u].c();
      o = O("g"), d && d.c(), f(o, "class", "drawing"), f(t, "role", "application"), f(t, "tabindex", 0), f(t, "class", "a9s-annotationlayer"), Te(
        t,
        "drawing",
        /*tool*/
        e[18]
      ), Te(
        t,
        "editing",
        /*editableAnnotations*/
        e[5]
      ), Te(t, "hidden", !/*visible*/
      e[3]), Te(
        t,
        "hover",
        /*hoveredIsSelectable*/
        e[12]
      );
    },
    m(u, h) {
      Y(u, t, h), z(t, n);
      for (let g = 0; g < a.length; g += 1)
        a[g] && a[g].m(n, null);
      z(t, o), d && d.m(o, null), e[38](o), e[39](t), s = !0, i || (l = [
        Q(t, "pointerup", function() {
          ie(
            /*onPointerUp*/
            e[14]
          ) && e[14].apply(this, arguments);
        }),
        Q(t, "pointerdown", function() {
          ie(
            /*onPointerDown*/
            e[15]
          ) && e[15].apply(this, arguments);
        }),
        Q(
          t,
          "pointermove",
          /*onPointerMove*/
          e[27]
        )
      ], i = !0);
    },
    p(u, h) {
      if (e = u, h[0] & /*$store, getAnnotationState, selectedIds, $hover, style, isEditable*/
      17311874) {
        r = Ee(
          /*$store*/
          e[19].filter(
            /*func*/
            e[37]
          )
        );
        let g;
        for (g = 0; g < r.length; g += 1) {
          const m = qn(e, r, g);
          a[g] ? (a[g].p(m, h), H(a[g], 1)) : (a[g] = Zn(m), a[g].c(), H(a[g], 1), a[g].m(n, null));
        }
        for (ye(), g = r.length; g < a.length; g += 1)
          c(g);
        we();
      }
      /*drawingEl*/
      e[9] ? d ? (d.p(e, h), h[0] & /*drawingEl*/
      512 && H(d, 1)) : (d = Jn(e), d.c(), H(d, 1), d.m(o, null)) : d && (ye(), F(d, 1, 1, () => {
        d = null;
      }), we()), (!s || h[0] & /*tool*/
      262144) && Te(
        t,
        "drawing",
        /*tool*/
        e[18]
      ), (!s || h[0] & /*editableAnnotations*/
      32) && Te(
        t,
        "editing",
        /*editableAnnotations*/
        e[5]
      ), (!s || h[0] & /*visible*/
      8) && Te(t, "hidden", !/*visible*/
      e[3]), (!s || h[0] & /*hoveredIsSelectable*/
      4096) && Te(
        t,
        "hover",
        /*hoveredIsSelectable*/
        e[12]
      );
    },
    i(u) {
      if (!s) {
        for (let h = 0; h < r.length; h += 1)
          H(a[h]);
        H(d), s = !0;
      }
    },
    o(u) {
      a = a.filter(Boolean);
      for (let h = 0; h < a.length; h += 1)
        F(a[h]);
      F(d), s = !1;
    },
    d(u) {
      u && B(t), ze(a, u), d && d.d(), e[38](null), e[39](null), i = !1, Ae(l);
    }
  };
}
function Xr(e, t, n) {
  let o, s, i, l, r, a, c, d, u, h, g, m, y, A, w = $, v = () => (w(), w = so(E, (U) => n(20, A = U)), E);
  e.$$.on_destroy.push(() => w());
  let { drawingEnabled: p } = t, { image: S } = t, { preferredDrawingMode: P } = t, { state: T } = t, { style: L = void 0 } = t, { toolName: D = To()[0] } = t, { user: I } = t, { visible: K = !0 } = t, X = 0;
  const G = () => n(8, X += 1), N = () => D, M = () => p;
  let _, b, E;
  Ve(() => v(n(10, E = hi(S, b))));
  const { hover: k, selection: V, store: C } = T;
  Ct(e, k, (U) => n(7, g = U)), Ct(e, V, (U) => n(36, m = U)), Ct(e, C, (U) => n(19, y = U));
  let q, j;
  const Z = (U, ee, ne) => ({
    selected: ee.has(U.id),
    hovered: ne === U.id
  }), te = (U) => {
    q && C.unobserve(q);
    const ee = U.filter(({ editable: ne }) => ne).map(({ id: ne }) => ne);
    ee.length > 0 ? (n(5, j = ee.map((ne) => C.getAnnotation(ne)).filter((ne) => ne && St(ne))), q = (ne) => {
      const { updated: be } = ne.changes;
      n(5, j = be == null ? void 0 : be.map((Pe) => Pe.newValue));
    }, C.observe(q, { annotations: ee })) : n(5, j = void 0);
  }, de = (U) => {
    const ee = Eo(), ne = {
      id: ee,
      bodies: [],
      target: {
        annotation: ee,
        selector: U.detail,
        creator: I,
        created: /* @__PURE__ */ new Date()
      }
    };
    C.addAnnotation(ne), V.setSelected(ne.id);
  }, se = (U) => (ee) => {
    var Ge;
    const { target: ne } = U, be = 10 * 60 * 1e3, Pe = ((Ge = ne.creator) == null ? void 0 : Ge.id) !== I.id || !ne.created || (/* @__PURE__ */ new Date()).getTime() - ne.created.getTime() > be;
    C.updateTarget({
      ...ne,
      selector: ee.detail,
      created: Pe ? ne.created : /* @__PURE__ */ new Date(),
      updated: Pe ? /* @__PURE__ */ new Date() : void 0,
      updatedBy: Pe ? I : void 0
    });
  }, ve = (U) => {
    const { x: ee, y: ne } = Io(U, b), be = C.getAt(ee, ne, void 0, 2);
    be ? g !== be.id && k.set(be.id) : k.set(void 0);
  }, Me = (U) => St(U);
  function Oe(U) {
    Et[U ? "unshift" : "push"](() => {
      _ = U, n(9, _);
    });
  }
  function Xe(U) {
    Et[U ? "unshift" : "push"](() => {
      b = U, n(4, b);
    });
  }
  return e.$$set = (U) => {
    "drawingEnabled" in U && n(0, p = U.drawingEnabled), "image" in U && n(28, S = U.image), "preferredDrawingMode" in U && n(29, P = U.preferredDrawingMode), "state" in U && n(30, T = U.state), "style" in U && n(1, L = U.style), "toolName" in U && n(2, D = U.toolName), "user" in U && n(31, I = U.user), "visible" in U && n(3, K = U.visible);
  }, e.$$.update = () => {
    e.$$.dirty[0] & /*toolName*/
    4 && n(18, { tool: o, opts: s } = Lo(D) || { tool: void 0, opts: void 0 }, o, (n(35, s), n(2, D))), e.$$.dirty[0] & /*preferredDrawingMode*/
    536870912 | e.$$.dirty[1] & /*opts*/
    16 && n(17, i = (s == null ? void 0 : s.drawingMode) || P), e.$$.dirty[0] & /*svgEl*/
    16 && n(16, l = Lr(b)), e.$$.dirty[0] & /*svgEl*/
    16 && n(15, { onPointerDown: r, onPointerUp: a } = Or(b, C), r, (n(14, a), n(4, b))), e.$$.dirty[1] & /*$selection*/
    32 && te(m.selected), e.$$.dirty[1] & /*$selection*/
    32 && n(13, c = new Set(m.selected.map(({ id: U }) => U))), e.$$.dirty[0] & /*$hover*/
    128 && n(12, d = (() => {
      if (!g) return !1;
      const U = C.getAnnotation(g);
      return U ? V.evalSelectAction(U) !== on.NONE : !1;
    })()), e.$$.dirty[0] & /*editableAnnotations*/
    32 && n(6, u = j ? j.map((U) => ({
      annotation: U,
      editor: Wi(U.target.selector)
    })).filter((U) => U.editor) : void 0), e.$$.dirty[0] & /*editors*/
    64 && n(11, h = (U) => u && u.some((ee) => ee.annotation.id === U.id));
  }, [
    p,
    L,
    D,
    K,
    b,
    j,
    u,
    g,
    X,
    _,
    E,
    h,
    d,
    c,
    a,
    r,
    l,
    i,
    o,
    y,
    A,
    k,
    V,
    C,
    Z,
    de,
    se,
    ve,
    S,
    P,
    T,
    I,
    G,
    N,
    M,
    s,
    m,
    Me,
    Oe,
    Xe
  ];
}
class Gr extends pe {
  constructor(t) {
    super(), me(
      this,
      t,
      Xr,
      Hr,
      ae,
      {
        drawingEnabled: 0,
        image: 28,
        preferredDrawingMode: 29,
        state: 30,
        style: 1,
        toolName: 2,
        user: 31,
        visible: 3,
        cancelDrawing: 32,
        getDrawingTool: 33,
        isDrawingEnabled: 34
      },
      null,
      [-1, -1]
    );
  }
  get cancelDrawing() {
    return this.$$.ctx[32];
  }
  get getDrawingTool() {
    return this.$$.ctx[33];
  }
  get isDrawingEnabled() {
    return this.$$.ctx[34];
  }
}
function Oo(e, t, n = 0, o = e.length - 1, s = jr) {
  for (; o > n; ) {
    if (o - n > 600) {
      const a = o - n + 1, c = t - n + 1, d = Math.log(a), u = 0.5 * Math.exp(2 * d / 3), h = 0.5 * Math.sqrt(d * u * (a - u) / a) * (c - a / 2 < 0 ? -1 : 1), g = Math.max(n, Math.floor(t - c * u / a + h)), m = Math.min(o, Math.floor(t + (a - c) * u / a + h));
      Oo(e, t, g, m, s);
    }
    const i = e[t];
    let l = n, r = o;
    for (tt(e, n, t), s(e[o], i) > 0 && tt(e, n, o); l < r; ) {
      for (tt(e, l, r), l++, r--; s(e[l], i) < 0; ) l++;
      for (; s(e[r], i) > 0; ) r--;
    }
    s(e[n], i) === 0 ? tt(e, n, r) : (r++, tt(e, r, o)), r <= t && (n = r + 1), t <= r && (o = r - 1);
  }
}
function tt(e, t, n) {
  const o = e[t];
  e[t] = e[n], e[n] = o;
}
function jr(e, t) {
  return e < t ? -1 : e > t ? 1 : 0;
}
class Fr {
  constructor(t = 9) {
    this._maxEntries = Math.max(4, t), this._minEntries = Math.max(2, Math.ceil(this._maxEntries * 0.4)), this.clear();
  }
  all() {
    return this._all(this.data, []);
  }
  search(t) {
    let n = this.data;
    const o = [];
    if (!mt(t, n)) return o;
    const s = this.toBBox, i = [];
    for (; n; ) {
      for (let l = 0; l < n.children.length; l++) {
        const r = n.children[l], a = n.leaf ? s(r) : r;
        mt(t, a) && (n.leaf ? o.push(r) : qt(t, a) ? this._all(r, o) : i.push(r));
      }
      n = i.pop();
    }
    return o;
  }
  collides(t) {
    let n = this.data;
    if (!mt(t, n)) return !1;
    const o = [];
    for (; n; ) {
      for (let s = 0; s < n.children.length; s++) {
        const i = n.children[s], l = n.leaf ? this.toBBox(i) : i;
        if (mt(t, l)) {
          if (n.leaf || qt(t, l)) return !0;
          o.push(i);
        }
      }
      n = o.pop();
    }
    return !1;
  }
  load(t) {
    if (!(t && t.length)) return this;
    if (t.length < this._minEntries) {
      for (let o = 0; o < t.length; o++)
        this.insert(t[o]);
      return this;
    }
    let n = this._build(t.slice(), 0, t.length - 1, 0);
    if (!this.data.children.length)
      this.data = n;
    else if (this.data.height === n.height)
      this._splitRoot(this.data, n);
    else {
      if (this.data.height < n.height) {
        const o = this.data;
        this.data = n, n = o;
      }
      this._insert(n, this.data.height - n.height - 1, !0);
    }
    return this;
  }
  insert(t) {
    return t && this._insert(t, this.data.height - 1), this;
  }
  clear() {
    return this.data = Qe([]), this;
  }
  remove(t, n) {
    if (!t) return this;
    let o = this.data;
    const s = this.toBBox(t), i = [], l = [];
    let r, a, c;
    for (; o || i.length; ) {
      if (o || (o = i.pop(), a = i[i.length - 1], r = l.pop(), c = !0), o.leaf) {
        const d = zr(t, o.children, n);
        if (d !== -1)
          return o.children.splice(d, 1), i.push(o), this._condense(i), this;
      }
      !c && !o.leaf && qt(o, s) ? (i.push(o), l.push(r), r = 0, a = o, o = o.children[0]) : a ? (r++, o = a.children[r], c = !1) : o = null;
    }
    return this;
  }
  toBBox(t) {
    return t;
  }
  compareMinX(t, n) {
    return t.minX - n.minX;
  }
  compareMinY(t, n) {
    return t.minY - n.minY;
  }
  toJSON() {
    return this.data;
  }
  fromJSON(t) {
    return this.data = t, this;
  }
  _all(t, n) {
    const o = [];
    for (; t; )
      t.leaf ? n.push(...t.children) : o.push(...t.children), t = o.pop();
    return n;
  }
  _build(t, n, o, s) {
    const i = o - n + 1;
    let l = this._maxEntries, r;
    if (i <= l)
      return r = Qe(t.slice(n, o + 1)), Ze(r, this.toBBox), r;
    s || (s = Math.ceil(Math.log(i) / Math.log(l)), l = Math.ceil(i / Math.pow(l, s - 1))), r = Qe([]), r.leaf = !1, r.height = s;
    const a = Math.ceil(i / l), c = a * Math.ceil(Math.sqrt(l));
    eo(t, n, o, c, this.compareMinX);
    for (let d = n; d <= o; d += c) {
      const u = Math.min(d + c - 1, o);
      eo(t, d, u, a, this.compareMinY);
      for (let h = d; h <= u; h += a) {
        const g = Math.min(h + a - 1, u);
        r.children.push(this._build(t, h, g, s - 1));
      }
    }
    return Ze(r, this.toBBox), r;
  }
  _chooseSubtree(t, n, o, s) {
    for (; s.push(n), !(n.leaf || s.length - 1 === o); ) {
      let i = 1 / 0, l = 1 / 0, r;
      for (let a = 0; a < n.children.length; a++) {
        const c = n.children[a], d = zt(c), u = Wr(t, c) - d;
        u < l ? (l = u, i = d < i ? d : i, r = c) : u === l && d < i && (i = d, r = c);
      }
      n = r || n.children[0];
    }
    return n;
  }
  _insert(t, n, o) {
    const s = o ? t : this.toBBox(t), i = [], l = this._chooseSubtree(s, this.data, n, i);
    for (l.children.push(t), ot(l, s); n >= 0 && i[n].children.length > this._maxEntries; )
      this._split(i, n), n--;
    this._adjustParentBBoxes(s, i, n);
  }
  // split overflowed node into two
  _split(t, n) {
    const o = t[n], s = o.children.length, i = this._minEntries;
    this._chooseSplitAxis(o, i, s);
    const l = this._chooseSplitIndex(o, i, s), r = Qe(o.children.splice(l, o.children.length - l));
    r.height = o.height, r.leaf = o.leaf, Ze(o, this.toBBox), Ze(r, this.toBBox), n ? t[n - 1].children.push(r) : this._splitRoot(o, r);
  }
  _splitRoot(t, n) {
    this.data = Qe([t, n]), this.data.height = t.height + 1, this.data.leaf = !1, Ze(this.data, this.toBBox);
  }
  _chooseSplitIndex(t, n, o) {
    let s, i = 1 / 0, l = 1 / 0;
    for (let r = n; r <= o - n; r++) {
      const a = nt(t, 0, r, this.toBBox), c = nt(t, r, o, this.toBBox), d = Zr(a, c), u = zt(a) + zt(c);
      d < i ? (i = d, s = r, l = u < l ? u : l) : d === i && u < l && (l = u, s = r);
    }
    return s || o - n;
  }
  // sorts node children by the best axis for split
  _chooseSplitAxis(t, n, o) {
    const s = t.leaf ? this.compareMinX : qr, i = t.leaf ? this.compareMinY : Kr, l = this._allDistMargin(t, n, o, s), r = this._allDistMargin(t, n, o, i);
    l < r && t.children.sort(s);
  }
  // total margin of all possible split distributions where each node is at least m full
  _allDistMargin(t, n, o, s) {
    t.children.sort(s);
    const i = this.toBBox, l = nt(t, 0, n, i), r = nt(t, o - n, o, i);
    let a = gt(l) + gt(r);
    for (let c = n; c < o - n; c++) {
      const d = t.children[c];
      ot(l, t.leaf ? i(d) : d), a += gt(l);
    }
    for (let c = o - n - 1; c >= n; c--) {
      const d = t.children[c];
      ot(r, t.leaf ? i(d) : d), a += gt(r);
    }
    return a;
  }
  _adjustParentBBoxes(t, n, o) {
    for (let s = o; s >= 0; s--)
      ot(n[s], t);
  }
  _condense(t) {
    for (let n = t.length - 1, o; n >= 0; n--)
      t[n].children.length === 0 ? n > 0 ? (o = t[n - 1].children, o.splice(o.indexOf(t[n]), 1)) : this.clear() : Ze(t[n], this.toBBox);
  }
}
function zr(e, t, n) {
  if (!n) return t.indexOf(e);
  for (let o = 0; o < t.length; o++)
    if (n(e, t[o])) return o;
  return -1;
}
function Ze(e, t) {
  nt(e, 0, e.children.length, t, e);
}
function nt(e, t, n, o, s) {
  s || (s = Qe(null)), s.minX = 1 / 0, s.minY = 1 / 0, s.maxX = -1 / 0, s.maxY = -1 / 0;
  for (let i = t; i < n; i++) {
    const l = e.children[i];
    ot(s, e.leaf ? o(l) : l);
  }
  return s;
}
function ot(e, t) {
  return e.minX = Math.min(e.minX, t.minX), e.minY = Math.min(e.minY, t.minY), e.maxX = Math.max(e.maxX, t.maxX), e.maxY = Math.max(e.maxY, t.maxY), e;
}
function qr(e, t) {
  return e.minX - t.minX;
}
function Kr(e, t) {
  return e.minY - t.minY;
}
function zt(e) {
  return (e.maxX - e.minX) * (e.maxY - e.minY);
}
function gt(e) {
  return e.maxX - e.minX + (e.maxY - e.minY);
}
function Wr(e, t) {
  return (Math.max(t.maxX, e.maxX) - Math.min(t.minX, e.minX)) * (Math.max(t.maxY, e.maxY) - Math.min(t.minY, e.minY));
}
function Zr(e, t) {
  const n = Math.max(e.minX, t.minX), o = Math.max(e.minY, t.minY), s = Math.min(e.maxX, t.maxX), i = Math.min(e.maxY, t.maxY);
  return Math.max(0, s - n) * Math.max(0, i - o);
}
function qt(e, t) {
  return e.minX <= t.minX && e.minY <= t.minY && t.maxX <= e.maxX && t.maxY <= e.maxY;
}
function mt(e, t) {
  return t.minX <= e.maxX && t.minY <= e.maxY && t.maxX >= e.minX && t.maxY >= e.minY;
}
function Qe(e) {
  return {
    children: e,
    height: 1,
    leaf: !0,
    minX: 1 / 0,
    minY: 1 / 0,
    maxX: -1 / 0,
    maxY: -1 / 0
  };
}
function eo(e, t, n, o, s) {
  const i = [t, n];
  for (; i.length; ) {
    if (n = i.pop(), t = i.pop(), n - t <= o) continue;
    const l = t + Math.ceil((n - t) / o / 2) * o;
    Oo(e, l, t, n, s), i.push(t, l, l, n);
  }
}
const Jr = () => {
  const e = new Fr(), t = /* @__PURE__ */ new Map(), n = () => [...t.values()], o = () => {
    e.clear(), t.clear();
  }, s = (u) => {
    if (!wt(u)) return;
    const { minX: h, minY: g, maxX: m, maxY: y } = u.selector.geometry.bounds, A = { minX: h, minY: g, maxX: m, maxY: y, target: u };
    e.insert(A), t.set(u.annotation, A);
  }, i = (u) => {
    if (!wt(u)) return;
    const h = t.get(u.annotation);
    h && e.remove(h), t.delete(u.annotation);
  };
  return {
    all: n,
    clear: o,
    getAt: (u, h, g = 0) => {
      const y = e.search({
        minX: u - g,
        minY: h - g,
        maxX: u + g,
        maxY: h + g
      }).map((A) => A.target).filter(({ selector: A }) => Wo(A, u, h, g));
      return y.length > 0 ? (y.sort((A, w) => Jt(A.selector) - Jt(w.selector)), y) : [];
    },
    getIntersecting: (u, h, g, m) => e.search({
      minX: u,
      minY: h,
      maxX: u + g,
      maxY: h + m
    }).map((y) => y.target),
    insert: s,
    remove: i,
    set: (u, h = !0) => {
      h && o();
      const g = u.reduce((m, y) => {
        if (wt(y)) {
          const { minX: A, minY: w, maxX: v, maxY: p } = y.selector.geometry.bounds;
          return [...m, { minX: A, minY: w, maxX: v, maxY: p, target: y }];
        } else
          return m;
      }, []);
      g.forEach((m) => t.set(m.target.annotation, m)), e.load(g);
    },
    size: () => e.all().length,
    update: (u, h) => {
      i(u), s(h);
    }
  };
}, Qr = (e) => ({
  ...e,
  subscribe: (n) => {
    const o = (s) => n(s.state);
    return e.observe(o), n(e.all()), () => e.unobserve(o);
  }
}), xr = (e) => {
  const t = js(), n = Jr(), o = Is(t, e.userSelectAction, e.adapter), s = Ls(t), i = Ks();
  t.observe(({ changes: a }) => {
    n.set((a.created || []).map((c) => c.target), !1), (a.deleted || []).forEach((c) => n.remove(c.target)), (a.updated || []).forEach(({ oldValue: c, newValue: d }) => n.update(c.target, d.target));
  });
  function l(a, c, d, u, h = !1) {
    const g = n.getAt(a, c, u);
    if (d) {
      const m = g.map((y) => t.getAnnotation(y.annotation)).filter(Boolean).filter(d);
      return h ? m : m[0];
    } else {
      if (h)
        return g.map((m) => t.getAnnotation(m.annotation)).filter(Boolean);
      {
        const m = g[0];
        return m ? t.getAnnotation(m.annotation) : void 0;
      }
    }
  }
  return {
    store: {
      ...t,
      getAt: l,
      getIntersecting: (a, c, d, u) => n.getIntersecting(a, c, d, u).map((h) => t.getAnnotation(h.annotation)).filter(Boolean)
    },
    selection: o,
    hover: s,
    viewport: i
  };
}, $r = (e) => {
  const t = xr(e);
  return {
    ...t,
    store: Qr(t.store)
  };
}, el = (e) => {
  let t, n;
  if (e.nodeName === "CANVAS")
    t = e, n = t.getContext("2d", { willReadFrequently: !0 });
  else {
    const s = e;
    t = document.createElement("canvas"), t.width = s.width, t.height = s.height, n = t.getContext("2d", { willReadFrequently: !0 }), n.drawImage(s, 0, 0, s.width, s.height);
  }
  let o = 0;
  for (let s = 1; s < 10; s++)
    for (let i = 1; i < 10; i++) {
      const l = Math.round(i * t.width / 10), r = Math.round(s * t.height / 10), a = n.getImageData(l, r, 1, 1).data, c = (0.299 * a[0] + 0.587 * a[1] + 0.114 * a[2]) / 255;
      o += c;
    }
  return o / 81;
}, tl = (e) => {
  const t = el(e), n = t > 0.6 ? "dark" : "light";
  return console.log(`[Annotorious] Image brightness: ${t.toFixed(1)}. Setting ${n} theme.`), n;
}, to = (e, t, n) => t.setAttribute("data-theme", n === "auto" ? tl(e) : n), nl = (e, t) => ({
  ...e,
  drawingEnabled: e.drawingEnabled === void 0 ? t.drawingEnabled : e.drawingEnabled,
  drawingMode: e.drawingMode || t.drawingMode,
  userSelectAction: e.userSelectAction || t.userSelectAction,
  theme: e.theme || t.theme
}), no = typeof navigator > "u" ? !1 : navigator.userAgent.indexOf("Mac OS X") !== -1, ol = (e, t) => {
  const n = t || document, o = (l) => {
    const r = l;
    r.key === "z" && r.ctrlKey ? e.undo() : r.key === "y" && r.ctrlKey && e.redo();
  }, s = (l) => {
    const r = l;
    r.key === "z" && r.metaKey && (r.shiftKey ? e.redo() : e.undo());
  }, i = () => {
    no ? n.removeEventListener("keydown", s) : n.removeEventListener("keydown", o);
  };
  return no ? n.addEventListener("keydown", s) : n.addEventListener("keydown", o), {
    destroy: i
  };
}, hl = (e, t = {}) => {
  if (!e)
    throw "Missing argument: image";
  const n = typeof e == "string" ? document.getElementById(e) : e, o = nl(t, {
    drawingEnabled: !0,
    drawingMode: "drag",
    userSelectAction: on.EDIT,
    theme: "light"
  }), s = $r(o), { selection: i, store: l } = s, r = qs(l, o.initialHistory), a = Ws(
    s,
    r,
    o.adapter,
    o.autoSave
  ), c = document.createElement("DIV");
  c.style.position = "relative", c.style.display = "inline-block", n.style.display = "block", n.parentNode.insertBefore(c, n), c.appendChild(n);
  const d = ol(r);
  let u = ni();
  to(n, c, o.theme);
  const h = new Gr({
    target: c,
    props: {
      drawingEnabled: !!o.drawingEnabled,
      image: n,
      preferredDrawingMode: o.drawingMode,
      state: s,
      style: o.style,
      user: u
    }
  });
  h.$on("click", (N) => {
    const { originalEvent: M, annotation: _ } = N.detail;
    _ ? i.userSelect(_.id, M) : i.isEmpty() || i.clear();
  });
  const g = Js(s, r, o.adapter), m = () => h.cancelDrawing(), y = () => {
    h.$destroy(), c.parentNode.insertBefore(n, c), c.parentNode.removeChild(c), d.destroy(), r.destroy();
  }, A = () => h.getDrawingTool(), w = () => u, v = () => h.isDrawingEnabled(), p = (N, M, _) => ar(N, M, _), S = (N, M) => Zi(N, M), P = (N) => {
    if (!Lo(N))
      throw `No drawing tool named ${N}`;
    h.$set({ toolName: N });
  }, T = (N) => h.$set({ drawingEnabled: N }), L = (N) => h.$set({ preferredDrawingMode: N }), D = (N) => {
    console.warn("Filter not implemented yet");
  }, I = (N) => h.$set({ style: N }), K = (N) => to(n, c, N), X = (N) => {
    u = N, h.$set({ user: N });
  }, G = (N) => (
    // @ts-ignore
    h.$set({ visible: N })
  );
  return {
    ...g,
    cancelDrawing: m,
    destroy: y,
    getDrawingTool: A,
    getUser: w,
    isDrawingEnabled: v,
    listDrawingTools: To,
    on: a.on,
    off: a.off,
    registerDrawingTool: p,
    registerShapeEditor: S,
    setDrawingEnabled: T,
    setDrawingMode: L,
    setDrawingTool: P,
    setFilter: D,
    setStyle: I,
    setTheme: K,
    setUser: X,
    setVisible: G,
    element: c,
    state: s
  };
};
export {
  sn as Editor,
  Qi as EditorMount,
  je as Handle,
  dl as IdentityTransform,
  Mo as MidpointHandle,
  Oi as PolygonEditor,
  Vi as RectangleEditor,
  ns as RectangleUtil,
  nr as RubberbandRectangle,
  Gr as SVGAnnotationLayer,
  x as ShapeType,
  $i as ToolMount,
  on as UserSelectAction,
  ul as W3CImageFormat,
  Or as addEventListeners,
  Qt as approximateAsPolygon,
  yt as boundsFromMultiPolygonElements,
  fe as boundsFromPoints,
  cl as chainStyles,
  Jt as computeArea,
  vt as computePolygonArea,
  _o as computeSVGPath,
  al as computeStyle,
  ll as createBody,
  hl as createImageAnnotator,
  xr as createImageAnnotatorState,
  Lr as createSVGTransform,
  $r as createSvelteImageAnnotatorState,
  fl as defaultColorProvider,
  tl as detectTheme,
  _t as distance,
  hi as enableResponsive,
  nl as fillDefaults,
  xo as getAllCorners,
  Wi as getEditor,
  Mt as getMaskDimensions,
  fi as getOffsetPoint,
  Io as getSVGPoint,
  Lo as getTool,
  ol as initKeyboardCommands,
  Wo as intersects,
  tn as isFragmentSelector,
  St as isImageAnnotation,
  wt as isImageAnnotationTarget,
  no as isMac,
  At as isPointInPolygon,
  Ie as isTouch,
  To as listDrawingTools,
  Le as multipolygonElementToPath,
  os as parseFragmentSelector,
  ys as parseSVGSelector,
  ai as parseW3CImageAnnotation,
  go as pointsToPath,
  Zi as registerEditor,
  et as registerShapeUtil,
  ar as registerTool,
  el as sampleBrightness,
  ss as serializeFragmentSelector,
  Es as serializeSVGSelector,
  ci as serializeW3CImageAnnotation,
  to as setTheme,
  il as simplifyMultiPolygon,
  mo as simplifyPoints,
  rl as simplifyPolygon,
  Qr as toSvelteStore
};
//# sourceMappingURL=annotorious.es.js.map
