// SPDX-License-Identifier: Apache-2.0

// The fleet as a picture: a cell for each node. Up to some thousand cells are buttons; more are drawn on a canvas, of which one element is enough.

import { Component, h } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** Tile is how a node looks. tone is a class of the style sheet: g0 to g6 and x. A node that has not changed has the same tile. */
export interface Tile { key: string; tone: string; glyph: string; says: () => string }

/** TileGroup is a group of nodes. dim, if there is one, has for each tile whether a filter excludes it. */
export interface TileGroup { name: string; tiles: Tile[]; dim?: boolean[] }

/** mostButtons is how many cells are buttons. */
const mostButtons = 2000;

interface PictureProps { groups: TileGroup[]; size: number; selected?: string; choose: (key: string) => void }

export function Picture(p: PictureProps) {
  let count = 0;
  for (const group of p.groups) {
    count += group.tiles.length;
  }
  if (count === 0) {
    return <p class="empty">No node matches.</p>;
  }
  return count > mostButtons ? <Drawing {...p} /> : <Buttons {...p} />;
}

class Button extends Component<{ tile: Tile; dim: boolean; size: number; selected: boolean; inOrder: boolean; choose: (key: string) => void }> {
  shouldComponentUpdate(next: this["props"]) {
    const now = this.props;
    return now.tile !== next.tile || now.dim !== next.dim || now.size !== next.size || now.selected !== next.selected || now.inOrder !== next.inOrder;
  }

  render() {
    const { tile, dim, size, selected, inOrder, choose } = this.props, says = tile.says();
    const style = { width: size + "px", height: size + "px", fontSize: Math.round(size * 0.6) + "px" };
    return (
      <button type="button" class={"cell " + tile.tone + (dim ? " dim" : "") + (selected ? " chosen" : "")} style={style} title={says}
        aria-label={says} aria-pressed={selected} data-node={tile.key} tabIndex={inOrder ? 0 : -1} onClick={() => choose(tile.key)}>{tile.glyph}</button>
    );
  }
}

/** Buttons are one stop of the Tab key; the arrow keys go from one to the next. */
function Buttons({ groups: all, size, selected, choose }: PictureProps) {
  const walk = (e: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const step = steps[e.key];
    if (!step) {
      return;
    }
    const cells = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".cell")];
    const at = cells.indexOf(document.activeElement as HTMLElement);
    if (at >= 0) {
      e.preventDefault();
      cells[Math.max(0, Math.min(cells.length - 1, at + step))].focus();
    }
  };
  const stop = all.some((g) => g.tiles.some((t) => t.key === selected)) ? selected : all.find((g) => g.tiles.length > 0)?.tiles[0].key;
  return (
    <div class="picture" data-picture="buttons" onKeyDown={walk}>
      {all.map((group) => (
        <section key={group.name} class="group" aria-label={group.name || "nodes"}>
          {group.name && <h3>{group.name} <small>{group.tiles.length}</small></h3>}
          <div class="cells">
            {group.tiles.map((tile, i) => <Button key={tile.key} tile={tile} dim={!!group.dim?.[i]} size={size} selected={tile.key === selected} inOrder={tile.key === stop} choose={choose} />)}
          </div>
        </section>
      ))}
    </div>
  );
}

const gap = 2;
const titleHeight = 26;

interface Place { tile: Tile; dim: boolean; x: number; y: number }

/** place computes where cells are on a canvas of that width. */
function place(all: TileGroup[], width: number, size: number) {
  const step = size + gap, columns = Math.max(1, Math.floor(width / step));
  const places: Place[] = [], titles: { name: string; y: number }[] = [], bands: { y: number; first: number; count: number }[] = [];
  let y = 0;
  for (const group of all) {
    if (group.name) {
      titles.push({ name: group.name + "  " + group.tiles.length, y });
      y += titleHeight;
    }
    bands.push({ y, first: places.length, count: group.tiles.length });
    group.tiles.forEach((tile, i) => places.push({ tile, dim: !!group.dim?.[i], x: (i % columns) * step, y: y + Math.floor(i / columns) * step }));
    y += Math.ceil(group.tiles.length / columns) * step + gap * 3;
  }
  return { places, titles, bands, columns, step, height: Math.max(y, step) };
}

function Drawing({ groups: all, size, selected, choose }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null), box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [at, setAt] = useState<{ index: number; x: number; y: number } | undefined>();
  const layout = useMemo(() => place(all, width, size), [all, width, size]);
  useLayoutEffect(() => {
    const observer = new ResizeObserver((entries) => setWidth(Math.floor(entries[0].contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const chosen = layout.places.findIndex((p) => p.tile.key === selected);
  useEffect(() => {
    const frame = requestAnimationFrame(() => draw(canvas.current!, layout, width, size, at?.index ?? chosen));
    return () => cancelAnimationFrame(frame);
  }, [layout, at?.index, chosen]);
  const find = (e: MouseEvent) => {
    const area = canvas.current!.getBoundingClientRect(), x = e.clientX - area.left, y = e.clientY - area.top;
    const band = layout.bands.findLast((b) => y >= b.y);
    if (!band) {
      return -1;
    }
    const i = Math.floor((y - band.y) / layout.step) * layout.columns + Math.floor(x / layout.step);
    return Math.floor(x / layout.step) < layout.columns && i < band.count ? band.first + i : -1;
  };
  const hover = (e: MouseEvent) => {
    const index = find(e), area = box.current!.getBoundingClientRect();
    setAt(index < 0 ? undefined : { index, x: e.clientX - area.left, y: e.clientY - area.top });
  };
  const walk = (e: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns };
    const now = at?.index ?? Math.max(chosen, 0);
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      choose(layout.places[now].tile.key);
    } else if (steps[e.key]) {
      e.preventDefault();
      const index = Math.max(0, Math.min(layout.places.length - 1, now + steps[e.key]));
      setAt({ index, x: layout.places[index].x + size, y: layout.places[index].y + size });
    }
  };
  const tile = at && layout.places[at.index]?.tile;
  return (
    <div class="picture drawing" ref={box} data-picture="canvas">
      <canvas ref={canvas} tabIndex={0} role="application" aria-label="The nodes, as cells: move with the arrow keys, choose with Enter"
        aria-describedby="cell-says" onMouseMove={hover} onMouseLeave={() => setAt(undefined)} onClick={(e) => {
          const index = find(e);
          if (index >= 0) {
            choose(layout.places[index].tile.key);
          }
        }} onKeyDown={walk} />
      <p id="cell-says" class={"tip" + (tile ? "" : " away")} aria-live="polite"
        style={tile ? { left: Math.min(at!.x + 12, Math.max(width - 260, 0)) + "px", top: at!.y + 14 + "px" } : {}}>{tile?.says()}</p>
    </div>
  );
}

/** draw draws all cells. The colours are those of the style sheet. */
function draw(canvas: HTMLCanvasElement, layout: ReturnType<typeof place>, width: number, size: number, marked: number) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = layout.height * scale;
  canvas.style.width = width + "px";
  canvas.style.height = layout.height + "px";
  const c = canvas.getContext("2d")!, styles = getComputedStyle(canvas);
  const colour = (name: string) => styles.getPropertyValue("--" + name).trim();
  c.scale(scale, scale);
  c.textBaseline = "middle";
  c.textAlign = "center";
  const family = styles.fontFamily, letters = size >= 11, half = size / 2;
  c.font = `${Math.round(size * 0.6)}px ${family}`;
  const looks = new Map<string, Place[]>();
  for (const p of layout.places) {
    const look = (p.dim ? "dim " : "") + p.tile.tone, own = looks.get(look);
    own ? own.push(p) : looks.set(look, [p]);
  }
  for (const [look, own] of looks) {
    const tone = look.replace("dim ", "");
    c.globalAlpha = look === tone ? 1 : 0.2;
    c.fillStyle = colour(tone);
    for (const p of own) {
      c.fillRect(p.x, p.y, size, size);
    }
    c.fillStyle = colour(tone + "-ink");
    for (const p of letters ? own : []) {
      c.fillText(p.tile.glyph, p.x + half, p.y + half + 1);
    }
  }
  c.globalAlpha = 1;
  c.textAlign = "left";
  c.fillStyle = colour("ink");
  c.font = `600 13px ${family}`;
  for (const t of layout.titles) {
    c.fillText(t.name, 0, t.y + titleHeight / 2);
  }
  const mark = layout.places[marked];
  if (mark) {
    c.strokeStyle = colour("ink");
    c.lineWidth = 2;
    c.strokeRect(mark.x - 1, mark.y - 1, size + 2, size + 2);
  }
}
