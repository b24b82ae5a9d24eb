//! Where things are on the screen, for drawing and for the mouse.

use ratatui_core::layout::Rect;

use crate::tui::model::{Mode, Model};
use crate::tui::render;

/// Narrower screens show one view at a time.
pub(crate) const WIDE: u16 = 100;
/// Rows of the chart with its frame, with much and with little room.
const CHART: u16 = 10;
const LOW_CHART: u16 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Areas {
    pub head: Rect,
    /// Including its frame; empty when only the agent is shown.
    pub list: Rect,
    /// Including its frame: the agents of other machines, below the list; empty without a fleet.
    pub elsewhere: Rect,
    pub chart: Rect,
    /// Including its frame; empty when only the list is shown.
    pub detail: Rect,
    /// On a small screen, above the agent: the other agents that need a person.
    pub needs: Rect,
    pub foot: Rect,
}

impl Areas {
    /// Rows of the list that fit.
    pub(crate) fn rows(&self) -> u16 {
        self.list.height.saturating_sub(2)
    }
}

fn chart_rows(room: u16) -> u16 {
    match room {
        26.. => CHART,
        18.. => LOW_CHART,
        _ => 0,
    }
}

impl Model {
    pub(crate) fn is_wide(&self) -> bool {
        self.width >= WIDE
    }

    pub(crate) fn areas(&self) -> Areas {
        let (width, height) = (self.width, self.height);
        let nothing = Rect::ZERO;
        let head = Rect::new(0, 0, width, height.min(1));
        let foot = Rect::new(0, height.saturating_sub(1), width, u16::from(height > 1));
        let (top, room) = (1, height.saturating_sub(2));
        if self.is_wide() {
            let left = (width / 2).clamp(50, 110);
            let chart = chart_rows(room);
            let (list, elsewhere) = self.shared_with_elsewhere(Rect::new(0, top, left, room - chart));
            return Areas {
                head,
                list,
                elsewhere,
                chart: Rect::new(0, top + room - chart, left, chart),
                detail: Rect::new(left, top, width - left, room),
                needs: nothing,
                foot,
            };
        }
        if !self.open {
            let (list, elsewhere) = self.shared_with_elsewhere(Rect::new(0, top, width, room));
            return Areas { head, list, elsewhere, chart: nothing, detail: nothing, needs: nothing, foot };
        }
        // Keep the agents that need a person visible.
        let needs = u16::try_from(self.others_needing().len().min(2)).unwrap_or(2).min(room);
        let chart = chart_rows(room - needs);
        Areas {
            head,
            list: nothing,
            elsewhere: nothing,
            chart: Rect::new(0, top + room - chart, width, chart),
            detail: Rect::new(0, top + needs, width, room - needs - chart),
            needs: Rect::new(0, top, width, needs),
            foot,
        }
    }

    /// Divides the list's place: other machines get what they need, a third of it at most.
    fn shared_with_elsewhere(&self, whole: Rect) -> (Rect, Rect) {
        let wanted = u16::try_from(render::elsewhere::lines(self).len()).unwrap_or(u16::MAX);
        if wanted == 0 || whole.height < 9 {
            return (whole, Rect::ZERO);
        }
        let height = wanted.saturating_add(2).min(whole.height / 3);
        let list = Rect { height: whole.height - height, ..whole };
        (list, Rect { y: whole.y + list.height, height, ..whole })
    }

    /// The largest box that the current mode may take, in the middle of the screen.
    pub(crate) fn overlay(&self) -> Rect {
        let (most_wide, most_high) = match self.mode {
            Mode::Help(_) => (78, 34),
            Mode::Spawn(_) => (78, 12),
            Mode::Decide { .. } | Mode::Deny { .. } | Mode::Answer { .. } | Mode::Reply { .. } => (96, 30),
            _ => (78, 9),
        };
        let width = self.width.saturating_sub(4).min(most_wide);
        let height = self.height.saturating_sub(2).min(most_high);
        Rect::new((self.width - width) / 2, (self.height - height) / 2, width, height)
    }
}
