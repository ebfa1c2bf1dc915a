// SPDX-License-Identifier: Apache-2.0

// The fleet as a picture: a cell for each node. Up to some thousand cells are buttons; more are drawn on a canvas, of which one element is enough.

import { Component, h } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** Tile is how a node looks. tone is a class of the style sheet: g0 to g6 and x. A node that has not changed has the same tile. */
export interface Tile { key: string; tone: string; glyph: string; says: () => string }

/** TileGroup is a group of nodes. dim, if there is one, has for each tile whether a filter excludes it. */
export interface TileGroup { name: string; tiles: Tile[]; dim?: boolean[] }

/** panelId is the id of the panel of the chosen node, which a cell opens and closes. */
export const panelId = "node-panel";

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

/** reveal scrolls a chosen cell into the part of the window that neither the legend above nor the panel below covers. Its edges are those in the window. */
function reveal(top: number, bottom: number): void {
  const above = document.querySelector(".steer")?.getBoundingClientRect().height || 0, below = innerHeight * 0.5; // the panel has less than the other half
  if (bottom > below) {
    window.scrollBy(0, bottom - below);
  } else if (top < above) {
    window.scrollBy(0, top - above);
  }
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
        aria-label={says} aria-expanded={selected} aria-controls={selected ? panelId : undefined} data-node={tile.key} tabIndex={inOrder ? 0 : -1} onClick={() => choose(tile.key)}>{tile.glyph}</button>
    );
  }
}

/** Buttons are one stop of the Tab key; the arrow keys go from one to the next. */
function Buttons({ groups: all, size, selected, choose }: PictureProps) {
  const walk = (e: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
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
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const area = box.current!.querySelector(".chosen")?.getBoundingClientRect();
    if (area) {
      reveal(area.top, area.bottom);
    }
  }, [selected]);
  return (
    <div class="picture" data-picture="buttons" ref={box} onKeyDown={walk}>
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

type Layout = ReturnType<typeof place>;

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
  const drawn = useRef<Drawn>(), scheme = useScheme();
  useLayoutEffect(() => {
    const observer = new ResizeObserver((entries) => setWidth(Math.floor(entries[0].contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const chosen = layout.places.findIndex((p) => p.tile.key === selected);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      drawn.current = draw(canvas.current!, { layout, width, size, scheme, scale: window.devicePixelRatio || 1 }, at?.index ?? chosen, drawn.current);
    });
    return () => cancelAnimationFrame(frame);
  }, [layout, scheme, at?.index, chosen]);
  useEffect(() => {
    if (chosen >= 0) {
      const top = canvas.current!.getBoundingClientRect().top + layout.places[chosen].y;
      reveal(top, top + size);
    }
  }, [selected]);
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
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns, Home: -Infinity, End: Infinity };
    const last = layout.places.length - 1, now = Math.min(at?.index ?? Math.max(chosen, 0), last); // cells may have gone since
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      choose(layout.places[now].tile.key);
    } else if (steps[e.key]) {
      e.preventDefault();
      const index = Math.max(0, Math.min(last, now + steps[e.key]));
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

/** useScheme is the colour scheme of the system, dark or light: a canvas does not follow it by itself. */
function useScheme(): string {
  const media = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [dark, turn] = useState(media.matches);
  useEffect(() => {
    const follow = () => turn(media.matches);
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  return dark ? "dark" : "light";
}

/** smallestLetter is the size of the smallest cells with a character. */
const smallestLetter = 8;

interface View { layout: Layout; width: number; size: number; scheme: string; scale: number }

/** Drawn is what is on the canvas: cells that have not changed are not drawn again. stamps are the images of cells by their looks. */
interface Drawn { same: string; places: Place[]; marked: number; stamps: Map<string, HTMLCanvasElement> }

/** draw draws the cells that look other than what was drawn before, or all cells if they have moved. */
function draw(canvas: HTMLCanvasElement, view: View, marked: number, before?: Drawn): Drawn {
  const { layout, width, size, scheme, scale } = view, c = canvas.getContext("2d")!;
  const same = JSON.stringify([width, size, scheme, scale, layout.bands, layout.titles]);
  const moved = before?.same !== same;
  const stamps = moved ? new Map<string, HTMLCanvasElement>() : before.stamps;
  const styles = moved || stamps.size === 0 ? getComputedStyle(canvas) : undefined;
  if (moved) {
    canvas.width = width * scale;
    canvas.height = layout.height * scale;
    canvas.style.width = width + "px";
    canvas.style.height = layout.height + "px";
    c.scale(scale, scale);
    c.textBaseline = "middle";
    c.fillStyle = styles!.getPropertyValue("--ink").trim();
    c.font = `600 13px ${styles!.fontFamily}`;
    for (const t of layout.titles) {
      c.fillText(t.name, 0, t.y + titleHeight / 2);
    }
  }
  const paint = (p: Place) => {
    const look = (p.dim ? "dim " : "") + p.tile.tone + " " + p.tile.glyph;
    let stamp = stamps.get(look);
    if (!stamp) {
      stamps.set(look, (stamp = stampOf(p, size, scale, styles || getComputedStyle(canvas))));
    }
    c.drawImage(stamp, p.x, p.y, size, size);
  };
  layout.places.forEach((p, i) => {
    const old = moved ? undefined : before.places[i], outlined = i === marked;
    if (old && old.dim === p.dim && (old.tile === p.tile || old.tile.tone === p.tile.tone && old.tile.glyph === p.tile.glyph) && outlined === (i === before!.marked)) {
      return;
    }
    if (old) {
      c.clearRect(p.x - gap, p.y - gap, size + 2 * gap, size + 2 * gap); // with its outline, and nothing of other cells
    }
    paint(p);
    if (outlined) {
      c.strokeStyle = (styles || getComputedStyle(canvas)).getPropertyValue("--ink").trim();
      c.lineWidth = 2;
      c.strokeRect(p.x - 1, p.y - 1, size + 2, size + 2);
    }
  });
  return { same, places: layout.places, marked, stamps };
}

/** stampOf is the image of a cell. The colours are those of the style sheet. */
function stampOf(p: Place, size: number, scale: number, styles: CSSStyleDeclaration): HTMLCanvasElement {
  const stamp = document.createElement("canvas"), colour = (name: string) => styles.getPropertyValue("--" + name).trim();
  stamp.width = stamp.height = Math.round(size * scale);
  const c = stamp.getContext("2d")!;
  c.scale(stamp.width / size, stamp.width / size);
  c.globalAlpha = p.dim ? 0.2 : 1;
  c.fillStyle = colour(p.tile.tone);
  c.fillRect(0, 0, size, size);
  if (size >= smallestLetter) {
    c.textBaseline = "middle";
    c.textAlign = "center";
    c.font = `${Math.round(size * (size < 16 ? 0.8 : 0.6))}px ${styles.fontFamily}`;
    c.fillStyle = colour(p.tile.tone + "-ink");
    c.fillText(p.tile.glyph, size / 2, size / 2 + 1);
  }
  return stamp;
}
